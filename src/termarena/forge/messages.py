"""Messages of commits that were written in an editor: git says their first line when it is done."""

from __future__ import annotations

import re
import shlex
from typing import Final

from termarena.shell.lines import parse_line

__all__ = ["created_empty", "with_message"]

_SAID: Final = re.compile(r"^\[[^\]\n]* [0-9a-f]{7,40}\] (.+)$", re.MULTILINE)
_GIVEN: Final = re.compile(
    r"-[a-zA-Z]*[mFCct].*|--(?:message|file|reuse-message|reedit-message|template|amend|fixup|squash).*"
)
_SUMMARY: Final = re.compile(r"^ (\d+) files? changed(?:, 0 insertions\(\+\))?(?:, 0 deletions\(-\))?$", re.MULTILINE)
_CREATED: Final = re.compile(r"^ create mode 100644 (.+)$", re.MULTILINE)
# Of a binary file git counts no lines either, whatever is in it.
_TEXT: Final = re.compile(
    r"(?:.*/)?(?:\.[\w-]+|[\w.-]*(?i:readme|licen[cs]e|changelog|makefile|dockerfile|todo|notes|authors)|[\w. -]+\.(?i:"
    r"txt|md|rst|adoc|html?|css|scss|jsx?|mjs|tsx?|vue|json|ya?ml|toml|ini|cfg|conf|env|xml|csv|tsv|sql|log|py|rb|pl|pm|php|lua|r"
    r"|sh|bash|zsh|fish|c|h|cc|cpp|cxx|hpp|hh|rs|go|java|kt|scala|swift|cs|hs|ml|ex|exs|erl|clj|el|vim|tex|tf|mk|cmake|diff|patch))"
)


def with_message(text: str, output: str) -> str | None:
    """The command with its message in it, for a plain `git commit` that says which one it got; None for any other."""
    line = parse_line(text)
    said = _SAID.findall(output.replace("\r\n", "\n"))
    if not line.is_plain or line.simples[0].words[:2] != ("git", "commit") or len(said) != 1:
        return None
    if any(_GIVEN.fullmatch(word) for word in line.simples[0].words[2:]):
        return None
    return f"{text.rstrip()} -m {shlex.quote(said[0].strip())}"


def created_empty(output: str) -> list[str]:
    """The files that a commit says it made, where it says that not one line is in them; of those, the texts by name."""
    plain = output.replace("\r\n", "\n")
    summary, created = _SUMMARY.search(plain), _CREATED.findall(plain)
    is_bare = summary is not None and int(summary[1]) == len(created)
    return [path for path in created if is_bare and _TEXT.fullmatch(path)]
