"""The text protocol: actions written out in a reply, for models that cannot call tools.

    ACTION: EXECUTE             ACTION: WRITE_FILE
    COMMAND: ls -la             PATH: /app/notes.txt
                                CONTENT:
                                ```
                                any text, up to the fence that closes it
                                ```

A value stands behind its word, in a fence, or in lines that are set in below `|`. What stands in a fence, in set-in
lines, in a here-document or in open quotes is never read as protocol, whatever words it holds.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from termarena.agents.toolbox import Action
from termarena.agents.xml_protocol import read_marked

__all__ = ["FIELDS", "read_actions"]

_ACTION: Final = re.compile(r"^[ \t]*(?:[-*>#]+ *)?\**ACTION\**:\**[ \t]*`?([A-Za-z_]+)`?\**[ \t]*$", re.IGNORECASE)
FIELDS: Final = ("command", "path", "content")
_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.#-]*)[ \t]*$")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_DONE: Final = re.compile(r"^[ \t]*[*`_]*TASK[_ ]COMPLETE[*`_.!]*[ \t]*$", re.MULTILINE)
_SHELLS: Final = frozenset({"", "bash", "sh", "shell", "console", "zsh"})
_BLOCK: Final = frozenset({"", "|", "|-", "|+", ">"})
_NAMES: Final = {
    "RUN": "EXECUTE", "SHELL": "EXECUTE", "BASH": "EXECUTE", "EXEC": "EXECUTE", "COMMAND": "EXECUTE",
    "LS": "LIST_DIR", "LIST": "LIST_DIR", "READ": "READ_FILE", "CAT": "READ_FILE", "WRITE": "WRITE_FILE",
    "DONE": "TASK_COMPLETE", "COMPLETE": "TASK_COMPLETE", "FINISH": "TASK_COMPLETE",
}  # fmt: skip


def read_actions(text: str, fields: tuple[str, ...] = FIELDS) -> tuple[Action, ...]:
    """The actions of a reply, in order; none where it holds none. What follows TASK_COMPLETE is not read.

    `fields` are the words that values stand behind, `command` among them.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    found = _Scanner(lines, fields).actions() if any(map(_ACTION.match, lines)) else _without_action(text, lines)
    kept: list[Action] = []
    for place, action in enumerate(found, 1):
        kept.append(Action(f"action_{place}", _NAMES.get(action.name, action.name), action.arguments))
        if kept[-1].name == "TASK_COMPLETE":
            break
    return tuple(kept)


def _without_action(text: str, lines: list[str]) -> list[Action]:
    """What is meant by a reply that does not use the word: marked up, a lone command, a fence, an end."""
    marked = read_marked(text)
    if marked:
        return marked
    scanner = _Scanner(lines, FIELDS)
    command = scanner.lone_command()
    if command:
        return [Action("", "EXECUTE", {"command": command})]
    return [Action("", "TASK_COMPLETE", {})] if _DONE.search(text) else []


class _Scanner:
    """Reads lines from a place on."""

    def __init__(self, lines: list[str], fields: tuple[str, ...]) -> None:
        self._lines = lines
        self._field = _field(fields)
        self._at = 0
        self._wrapper: str | None = None
        """The fence that the whole action stands in, as some models write it."""

    @property
    def _line(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def actions(self) -> list[Action]:
        found: list[Action] = []
        while (line := self._line) is not None:
            self._at += 1
            action = _ACTION.match(line)
            fence = _FENCE.match(line)
            if action:
                found.append(Action("", action[1].upper(), self._fields()))
            elif fence:
                self._wrapper = None if self._wrapper == fence[1] else fence[1]
        return found

    def _fields(self) -> dict[str, object]:
        fields: dict[str, object] = {}
        while (line := self._line) is not None and not _ACTION.match(line) and not self._closes(line):
            field = self._field.match(line)
            if field is None and fields and line.strip():
                break  # prose behind the action
            self._at += 1
            if field is not None:
                name = field[1].lower()
                value = self._value(field[2], name)
                fields[name] = _path(value) if name == "path" else value
        return fields

    def _closes(self, line: str) -> bool:
        return self._wrapper is not None and line.strip() == self._wrapper

    def _value(self, first: str, name: str) -> str:
        """The value that begins behind a word; the place is behind its end then."""
        if _FENCE.match(first):
            return self._fenced(first)
        if first.strip() not in _BLOCK:
            return self._inline(first, name)
        while not first.strip() and (line := self._line) is not None and not line.strip():
            self._at += 1
        return self._below(name)

    def _below(self, name: str) -> str:
        """The value that stands in the lines below its word."""
        line = self._line
        if line is not None and _FENCE.match(line) and not self._closes(line):
            self._at += 1
            return self._fenced(line)
        if line is not None and (line[:1] in (" ", "\t") or not line.strip()):
            return self._set_in()
        if line is None or _ACTION.match(line) or self._field.match(line) or self._closes(line):
            return ""
        return self._inline(None, name)

    def _fenced(self, opening: str) -> str:
        """Up to the line that closes the fence; fences with a language open and close within it."""
        fence = _FENCE.match(opening)
        assert fence is not None  # noqa: S101 - the caller has looked
        mark, depth, content = fence[1], 0, []
        while (line := self._line) is not None:
            self._at += 1
            inner = _FENCE.match(line)
            if inner and inner[1] == mark and inner[2]:
                depth += 1
            elif inner and inner[1][0] == mark[0] and len(inner[1]) >= len(mark) and not inner[2]:
                if not depth:
                    break
                depth -= 1
            content.append(line)
        return _text(content)

    def _set_in(self) -> str:
        content: list[str] = []
        indent: int | None = None
        while (line := self._line) is not None:
            depth = len(line) - len(line.lstrip(" \t"))
            if line.strip():
                indent = depth if indent is None else indent
                if depth < indent or not depth:
                    break
            content.append(line[indent or 0 :] if line.strip() else "")
            self._at += 1
        while content and not content[-1]:
            content.pop()
        return _text(content)

    def _inline(self, first: str | None, name: str) -> str:
        """Lines up to the next word of the protocol; a blank one ends all but a file and a command that is open."""
        content = [] if first is None else [first]
        while (line := self._line) is not None:
            is_open = name == "command" and _is_open("\n".join(content))
            if not is_open and (_ACTION.match(line) or self._field.match(line) or self._closes(line)):
                break
            if not is_open and name != "content" and not line.strip():
                break
            content.append(line)
            self._at += 1
        while content and not content[-1].strip():
            content.pop()
        return _text(content) if name == "content" else _unquoted("\n".join(content).strip())

    def lone_command(self) -> str | None:
        """What stands behind the first COMMAND, else in the first fence of a shell."""
        while (line := self._line) is not None:
            self._at += 1
            found = self._field.match(line)
            if found and found[1].upper() == "COMMAND":
                return self._value(found[2], "command").strip() or None
        self._at = 0
        while (line := self._line) is not None:
            self._at += 1
            fence = _FENCE.match(line)
            content = self._fenced(line) if fence else ""
            if fence and fence[2].lower() in _SHELLS:
                return content.strip() or None
        return None


@functools.cache
def _field(names: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(map(re.escape, names))
    return re.compile(rf"^[ \t]*\**({words})\**:\**[ \t]?(.*)$", re.IGNORECASE)


def _text(lines: list[str]) -> str:
    """Lines as a file has them."""
    return "\n".join(lines) + "\n" if lines else ""


def _path(value: str) -> str:
    return value.strip().strip("`'\"")


def _unquoted(command: str) -> str:
    """Without the backticks around it, where they are around all of it."""
    inner = command[1:-1]
    is_code = len(command) > 2 and command[0] == command[-1] == "`" and "`" not in inner  # noqa: PLR2004 - two ticks
    return inner if is_code else command


def _is_open(command: str) -> bool:
    """Whether a command needs more lines: an open quote, a here-document, a backslash at its end."""
    end: str | None = None
    quote = ""
    for line in command.split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        heredoc = _HEREDOC.search(line) if not quote else None
        quote = _quote_after(line, quote)
        if heredoc and not quote:
            end = heredoc[2]
    return end is not None or bool(quote) or command.endswith("\\")


def _quote_after(line: str, quote: str) -> str:
    """The quote that is open behind a line."""
    is_escaped = False
    for letter in line:
        if is_escaped:
            is_escaped = False
        elif letter == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
    return quote
