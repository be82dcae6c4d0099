"""Programs of other languages within a session: judged by their look, because nothing here takes them apart."""

from __future__ import annotations

import re
from typing import Final

from termarena.forge.screening.system_paths import SYSTEM

__all__ = ["LOOKS_DANGEROUS", "looks_harmful"]

LOOKS_DANGEROUS: Final = re.compile(
    rf"\brm\s+(?:-\w+\s+|--\w[\w-]*\s+)*(?:-\w*[rR]\w*|--recursive)\s.*(?<!\S)(?:~|{SYSTEM})/?\*?(?:[\s\"')]|$)"
    rf"|\b(?:cd|chdir)\b[\s(\"']+(?:~|{SYSTEM})/?[\"')]*\s*(?:;|&&|\n).*\brm\s+-\w*[rR]"
    rf"|\bch(?:mod|own)\s+-\w*R\w*\s+\S+\s+(?:~|{SYSTEM})/?(?:[\s\"')]|$)"
    r"|/dev/(?:tcp|udp|sd[a-z]|nvme)|\bmkfs|:\(\)\s*\{|\bnc\b[^\n]*\s-\w*e|\bxmrig\b|stratum\+"
    r"|\b(?:curl|wget|base64)\b[^\n]*\|\s*(?:sudo\s+)?(?:\w*sh|python\d?)\b"
)
"""What is dangerous in a text that no grammar covers."""
_NAMED: Final = rf"[\"'](?:~|{SYSTEM})/?\*?[\"']"
_HOME: Final = (
    r"[\w.]*\bhome(?:dir)?\(\)(?!\s*[/+])|[\w.]*expanduser\(\s*[\"']~/?[\"']"
    r"|[\w.]*[\[(]\s*[\"']HOME[\"'][\])](?!\s*[/+])|[\w.]*env\.HOME(?!\s*\+)"
)
_TREE: Final = re.compile(r"\b(?:rmtree|rmSync|remove_tree|rm_rf|rm_r|remove_entry|rimraf)\b")
_TREE_NAMED: Final = re.compile(rf"{_TREE.pattern}\s*\(?\s*(?:path=)?(?:[\w.]+\()?\s*(?:{_NAMED}|{_HOME})")
_WHOLE_NAMED: Final = re.compile(rf"=\s*(?:[\w.]+\()?\s*(?:{_NAMED}|{_HOME})")
_VARIABLE: Final = re.compile(rf"{_TREE.pattern}\s*\(?\s*(?:path=)?[$\w]")
_FORKS: Final = re.compile(r"\bfork while\b|\bwhile\b[\s(]*(?:1|[Tt]rue)\b[\s):{]*(?:os\.)?fork\b")
_FETCHES: Final = re.compile(
    r"\burlopen\(|\burlretrieve\(|\brequests\.get\(|\bhttps?\.get\(|\bfetch\(|\bLWP::|Net::HTTP|\bURI\.open|file_get_contents\(\s*[\"']http"
)
_RUNS: Final = re.compile(r"\b(?:exec|eval|system|popen|spawn|execSync|check_output|check_call)\s*\(|\bsubprocess\.|`")
_CONNECTS: Final = re.compile(r"\.connect\(|\bfsockopen\(|createConnection\(|TCPSocket|IO::Socket")
_SHELL: Final = re.compile(r"\bdup2\(|\bpty\.spawn\(|/bin/(?:ba|da|z)?sh\b")
_BETWEEN_WORDS: Final = re.compile(r"[\"']\s*,\s*[\"']")


def looks_harmful(text: str) -> bool:
    """Whether a program removes what is not its own, runs what it fetches, gives a shell away, or forks for ever."""
    if any(LOOKS_DANGEROUS.search(shown) for shown in (text, _BETWEEN_WORDS.sub(" ", text))):
        return True  # ["rm", "-rf", "/"] is a command, too
    removes = _TREE_NAMED.search(text) or (_VARIABLE.search(text) and _WHOLE_NAMED.search(text))
    fetches = _FETCHES.search(text) and _RUNS.search(text)
    gives_away = _CONNECTS.search(text) and _SHELL.search(text)
    return bool(removes or fetches or gives_away or _FORKS.search(text))
