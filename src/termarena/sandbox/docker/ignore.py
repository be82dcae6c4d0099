"""`.dockerignore`: which files of a build context the engine is not sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from termarena.core.errors import BuildError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Ignored"]


class Ignored:
    """The patterns of one context; the last one that matches a path or a folder above it decides."""

    def __init__(self, lines: list[str]) -> None:
        """Comments and empty lines are dropped. Raises `ValueError` for what is no pattern."""
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            is_exception = text.startswith("!")
            pattern = text.lstrip("!").strip().strip("/").removeprefix("./")
            if pattern:
                self._rules.append((_compiled(pattern), is_exception))
        self._has_exceptions = any(is_exception for _, is_exception in self._rules)

    @classmethod
    def of(cls, context: Path, dockerfile: str) -> Ignored:
        """The file beside the Dockerfile (`<name>.dockerignore`) or at the top of the context; none is no patterns.

        Raises `BuildError` for a file with something that is no pattern.
        """
        for name in (f"{dockerfile}.dockerignore", ".dockerignore"):
            path = context / name
            if path.is_file():
                try:
                    return cls(path.read_text(errors="surrogateescape").splitlines())
                except ValueError as error:
                    raise BuildError(str(path), str(error), step="", log_tail="", cause="task") from error
        return cls([])

    @property
    def has_rules(self) -> bool:
        """Whether anything may be left out."""
        return bool(self._rules)

    def excludes(self, path: str, *, is_folder: bool) -> bool:
        """Whether to leave a path out; a folder stays when an exception might want something below it."""
        is_out = False
        for pattern, is_exception in self._rules:
            if pattern.match(path):
                is_out = not is_exception
        return is_out and not (is_folder and self._has_exceptions)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_translate(pattern) + r"(?:/.*)?\Z", re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern} is no pattern: {error}") from error


def _translate(pattern: str) -> str:
    """As Go's filepath.Match, with `**` for any number of folders."""
    parts, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif letter in "*?":
            parts.append("[^/]*" if letter == "*" else "[^/]")
            at += 1
        elif letter == "[" and (end := pattern.find("]", at + 1)) > 0:
            parts.append("[" + pattern[at + 1 : end].replace("\\", r"\\") + "]")
            at = end + 1
        else:
            at += letter == "\\" and at + 1 < len(pattern)
            parts.append(re.escape(pattern[at]))
            at += 1
    return "".join(parts)
