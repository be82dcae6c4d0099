"""Shell scripts, read lightly: commands line by line, without comments and here-documents. Nothing is run."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Download", "Statement", "downloads", "outside_host", "statements"]

_HEREDOC = re.compile(
    r"(?<!<)<<(-?)[ \t]*(?:\"([^\"\n]{1,80})\"|'([^'\n]{1,80})'|\\?([A-Za-z_][A-Za-z0-9_.!@%+:,-]{0,79}))(?!<)"
)
_COMMENT = re.compile(r"(?:^|(?<=[ \t;]))#.*")
# A line beyond this is data, whatever the file is called.
_LINE_LIMIT = 4096
_OPTIONS = r"[ \t]+(?:-[\w=:/.-]+[ \t]+)*"
_FETCHERS = re.compile(
    r"(?:^|[;&|(`!]|\b(?:then|do|else|sudo|if|env|time|exec|xargs|while|until)[ \t])[ \t]*(?:\w+=\S*[ \t]+)*"
    r"(?:/usr/bin/|/usr/local/bin/)?(?:(?P<install>"
    rf"(?:apt-get|apt|apk|yum|dnf|microdnf|gem|conda|mamba|brew){_OPTIONS}(?:install|update|add|create|upgrade)\b"
    rf"|(?:npm|pnpm|yarn){_OPTIONS}(?:install|i|ci|add)\b|npx[ \t]|go[ \t]+(?:get|install)\b|cargo[ \t]+install\b"
    rf"|(?:python[\d.]*[ \t]+-m[ \t]+)?(?:uv[ \t]+)?pip[\d.]*{_OPTIONS}install\b"
    r"|uvx[ \t]|uv[ \t]+(?:add|sync|tool|run)\b)"
    r"|(?P<fetch>curl|wget|git[ \t]+clone)\b)(?P<rest>[^;&|\n]{0,1000})"
)
# Cheaper than the pattern above, which most lines need not meet.
_TRIPWIRES = re.compile(r"ap[tk]|yum|dnf|gem|conda|mamba|brew|np[mx]|yarn|go |cargo|pip|uv|curl|wget|clone")
_HOST = re.compile(r"(?:https?|ftp|git|ssh)://(?:[^\s/@\"']{1,200}@)?([^\s/:\"'?#)]{1,255})|\bgit@([\w.-]{1,255}):")
_LOCAL = re.compile(
    r"localhost|127\.\d|0\.0\.0\.0|\[|::1|[\w-]+$|.*\.(?:local|localhost|internal|test|example|invalid)$"
    r"|host\.docker|\$|\{|10\.\d|192\.168\.|172\.\d",
    re.IGNORECASE,
)
_OFFLINE = ("--no-index", "--offline", "--find-links", "--dry-run")


class Statement(NamedTuple):
    """A logical line: continuations joined, comment dropped."""

    line: int
    text: str


def statements(text: str) -> list[Statement]:
    """The logical lines of a script that hold anything. Linear in the text; of a long line, the beginning is read."""
    found = []
    lines = text.split("\n")
    ends: dict[str, int] | None = None
    number = 0
    while number < len(lines):
        start = number
        line = lines[number][:_LINE_LIMIT].rstrip("\r")
        number += 1
        while line.endswith("\\") and number < len(lines) and len(line) < _LINE_LIMIT:
            line = f"{line[:-1]} {lines[number][:_LINE_LIMIT].strip()}"
            number += 1
        bare = line.strip()
        if not bare or bare[0] == "#":
            continue
        if "#" in bare:
            bare = _COMMENT.sub("", bare).rstrip()
        found.append(Statement(start + 1, bare))
        if "<<" in bare and "((" not in bare:
            ends = ends or {_closing(line): place for place, line in enumerate(lines)}
            number = _after_heredocs(bare, lines, number, ends)
    return found


def _after_heredocs(line: str, lines: list[str], number: int, ends: dict[str, int]) -> int:
    """The number of the line after the here-documents that this one opens.

    `ends` has the last place of each line: without it, many here-documents that never close would take quadratic time.
    """
    for match in _HEREDOC.finditer(line):
        name = match[2] or match[3] or match[4]
        if ends.get(name, -1) < number:
            continue
        while number < len(lines):
            number += 1
            if _closing(lines[number - 1]) == name:
                break
    return number


def _closing(line: str) -> str:
    return line.rstrip("\r").lstrip("\t")


class Download(NamedTuple):
    """A command that needs the network."""

    line: int
    command: str
    may_fail: bool
    """Whether the script goes on when it fails (`|| true`)."""


def downloads(found: list[Statement]) -> list[Download]:
    """The commands that reach beyond the machine; loopback and the services of a composition do not count."""
    reached = []
    for statement in found:
        text = statement.text
        if not _TRIPWIRES.search(text):
            continue
        for match in _FETCHERS.finditer(text):
            rest = match["rest"]
            if match["install"] and not _is_local_install(match["install"], rest):
                reached.append(Download(statement.line, match["install"].strip(), "|| true" in text or "|| :" in text))
            elif match["fetch"] and (host := outside_host(rest)):
                reached.append(
                    Download(statement.line, f"{match['fetch']} {host}", "|| true" in text or "|| :" in text)
                )
    return reached


def outside_host(text: str) -> str | None:
    """The first host named in a URL that is not this machine or a bare service name."""
    for match in _HOST.finditer(text):
        host = match[1] or match[2]
        if not _LOCAL.match(host):
            return host
    return None


def _is_local_install(command: str, rest: str) -> bool:
    if any(word in rest for word in _OFFLINE) or command.startswith(("uv tool", "uv run")):
        # `uv run` fetches only what it is told to, or what a project lists.
        return not (command.startswith("uv run") and "--with" in rest)
    words = [word.strip("\"'") for word in rest.split() if not word.startswith(("-", "2>", ">", "$"))]
    return bool(words) and all(word.startswith(("./", "../", "/", ".")) for word in words) and "-r" not in rest.split()
