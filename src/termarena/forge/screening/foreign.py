"""Programs of other languages within a session: judged by their look, because nothing here takes them apart."""

from __future__ import annotations

import re
from typing import Final

from termarena.forge.screening.system_paths import SYSTEM

__all__ = ["looks_dangerous", "looks_harmful", "runs_text"]

_PATH: Final = rf"(?:~|{SYSTEM})"
_OPTION: Final = r"(?:-\w+\s+|--\w[\w-]*\s+){0,32}"
_RECURSIVE: Final = re.compile(rf"\brm\s+{_OPTION}(?:-(?=\w*[rR])\w++|--recursive)(?=\s)")
_WHOLE: Final = re.compile(rf"(?<!\S){_PATH}/?\*?(?:[\s\"')]|$)")
_GOES: Final = re.compile(rf"\b(?:cd|chdir)\b[\s(\"']+{_PATH}/?[\"')]*\s*(?:;|&&|\n)")
_REMOVES: Final = re.compile(r"\brm\s+-\w*[rR]")
_ANYWHERE: Final = re.compile(
    rf"\bch(?:mod|own)\s+-(?=\w*R)\w++\s+\S++\s+{_PATH}/?(?:[\s\"')]|$)"
    r"|/dev/(?:tcp|udp|sd[a-z]|nvme)|\bmkfs|:\(\)\s*\{|\bxmrig\b|stratum\+"
)
_ONE_BEHIND_THE_OTHER: Final = (
    (_RECURSIVE, _WHOLE),
    (_GOES, _REMOVES),
    (re.compile(r"\bnc\b"), re.compile(r"\s-\w*e")),
    (re.compile(r"\b(?:curl|wget|base64)\b"), re.compile(r"\| ?(?:sudo\s+)?(?:\w*sh|python\d?)\b")),
)
"""Dangerous where the second stands behind the first in one line."""
_PIPE: Final = re.compile(r"\|\s+")
_NAMED: Final = rf"[\"'](?:~|{SYSTEM})/?\*?[\"']"
_GAP, _DOTTED = r"\s{0,8}", r"[\w.]{0,80}"
_HOME: Final = (
    rf"{_DOTTED}(?:\bhome(?:dir)?\(\)(?!{_GAP}[/+])|expanduser\({_GAP}[\"']~/?[\"']"
    rf"|[\[(]{_GAP}[\"']HOME[\"'][\])](?!{_GAP}[/+])|env\.HOME(?!{_GAP}\+))"
)
_TREE: Final = re.compile(r"\b(?:rmtree|rmSync|remove_tree|rm_rf|rm_r|remove_entry|rimraf)\b")
_VALUE: Final = rf"(?:{_DOTTED}\()?{_GAP}(?:{_NAMED}|{_HOME})"
_TREE_NAMED: Final = re.compile(rf"{_TREE.pattern}{_GAP}\(?{_GAP}(?:path=)?{_VALUE}")
_WHOLE_NAMED: Final = re.compile(rf"={_GAP}{_VALUE}")
_VARIABLE: Final = re.compile(rf"{_TREE.pattern}{_GAP}\(?{_GAP}(?:path=)?[$\w]")
_FORKS: Final = re.compile(r"\bfork while\b|\bwhile\b[\s(]*(?:1|[Tt]rue)\b[\s):{]*(?:os\.)?fork\b")
_FETCHES: Final = re.compile(
    r"\burlopen\(|\burlretrieve\(|\brequests\.get\(|\bhttps?\.get\(|\bfetch\(|\bLWP::|Net::HTTP|\bURI\.open|file_get_contents\(\s*[\"']http"
)
_RUNS: Final = re.compile(
    r"(?<!\.)\b(?:exec|eval|system)\s*\((?!\s*\))|\b(?:popen|spawn|execSync|check_output|check_call)\s*\("
    r"|\b(?:os|builtins|__builtins__|Kernel|global|globalThis|window)\.(?:exec|eval|system)|\)\.system\("
    r"|\bsubprocess\.|\bchild_process\b"
)
"""Not `model.eval()`, `platform.system()` or an expression's `.exec(text)`."""
_HAS_BACKTICKS: Final = re.compile(r"\bLWP::|Net::HTTP|\bURI\.open|file_get_contents\(")
"""Of Perl, Ruby and PHP, where they run a command; elsewhere they only quote."""
_CONNECTS: Final = re.compile(r"\.connect\(|\bfsockopen\(|createConnection\(|TCPSocket|IO::Socket")
_SHELL: Final = re.compile(r"\bdup2\(|\bpty\.spawn\(|/bin/(?:ba|da|z)?sh\b")
_BETWEEN_WORDS: Final = re.compile(r"[\"']\s*,\s*[\"']")


def looks_dangerous(text: str) -> bool:
    """What is dangerous in a text that no grammar covers; told in a time that grows with its length alone."""
    joined = _PIPE.sub("| ", text)
    return _ANYWHERE.search(joined) is not None or any(_follows(joined, *pair) for pair in _ONE_BEHIND_THE_OTHER)


def _follows(text: str, first: re.Pattern[str], then: re.Pattern[str]) -> bool:
    looked_at = -1
    for found in first.finditer(text):
        if found.end() <= looked_at:  # from further ahead in the same line
            continue
        line_end = text.find("\n", found.end() + 1)
        looked_at = line_end if line_end >= 0 else len(text)
        if then.search(text, found.end(), looked_at):
            return True
    return False


def runs_text(text: str) -> bool:
    """Whether a program runs a text that it got from somewhere."""
    return _RUNS.search(text) is not None


def looks_harmful(text: str) -> bool:
    """Whether a program removes what is not its own, runs what it fetches, gives a shell away, or forks for ever."""
    if looks_dangerous(text) or looks_dangerous(_BETWEEN_WORDS.sub(" ", text)):
        return True  # ["rm", "-rf", "/"] is a command, too
    removes = _TREE_NAMED.search(text) or (_VARIABLE.search(text) and _WHOLE_NAMED.search(text))
    runs = runs_text(text) or ("`" in text and _HAS_BACKTICKS.search(text))
    fetches = runs and _FETCHES.search(text)
    gives_away = _CONNECTS.search(text) and _SHELL.search(text)
    return bool(removes or fetches or gives_away or _FORKS.search(text))
