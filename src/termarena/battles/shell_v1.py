"""`terminal-bench-shell-v1`: the words that a referee and an agent exchange, and how an agent's reply is read.

The four messages of the protocol are as everybody has them; what TermArena adds are optional keys and further kinds
of requests, which are announced in the task message.

    referee → agent   task
    agent → referee   exec_request | read_file | write_file | list_dir | keys | final (submit)
    referee → agent   exec_result | read_file_result | … | error, which says what was expected
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from termarena.agents.contract import OwnEnd, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.core.records import Json

__all__ = [
    "ACTIONS",
    "PROTOCOL",
    "Exec",
    "Keys",
    "ListDir",
    "Malformed",
    "ReadFile",
    "Request",
    "Submit",
    "WriteFile",
    "objects_in",
    "read_request",
    "usage_in",
]

PROTOCOL: Final = "terminal-bench-shell-v1"
ACTIONS: Final = ("exec", "read_file", "write_file", "list_dir", "keys", "submit")
EXPECTED: Final = ("exec_request", "read_file", "write_file", "list_dir", "keys", "final", "submit")
ENDS: Final[tuple[OwnEnd, ...]] = get_args(OwnEnd)
MOST_PLACES: Final = 2000
"""How many places of a reply are tried as the beginning of a JSON object."""
MOST_WORK: Final = 8 << 20
"""Characters that may be looked at in vain: a reply of nested beginnings would otherwise hold up every battle."""
RECURSION_WORK: Final = 10_000
LONGEST_REPLY: Final = 4 << 20
"""Characters of a reply that are searched for a request."""
LONGEST_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Exec:
    """Run a command in the shell that stays."""

    command: str
    timeout_s: float | None = None
    """None is the session's own."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file's content."""

    path: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Replace a file's content."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ListDir:
    """The names in a folder."""

    path: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Press keys by name, or type a text, and see the screen."""

    names: tuple[str, ...] = ()
    text: str = ""
    wait_s: float = 0.5
    """How long the screen may go on changing before it is shown."""


@dataclass(frozen=True, slots=True)
class Submit:
    """The agent is done, or says why it goes no further."""

    output: str = ""
    end: OwnEnd = "submitted"


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply with no request in it that could be done; `code` is for programs, `problem` for the agent."""

    code: str
    problem: str
    text: str = ""
    """What it said, the beginning."""


Request = Exec | ReadFile | WriteFile | ListDir | Keys | Submit


class _Wrong(Exception):
    """Why a request cannot be done."""


def read_request(texts: Sequence[str], tables: Sequence[Mapping[str, object]] = ()) -> Request | Malformed:
    """The first request of a reply: of its data parts, then of the JSON objects anywhere in its texts, each by itself
    and all in one: an answer may come in pieces."""
    found = None
    pieces = (*texts, "".join(texts)) if len(texts) > 1 else tuple(texts)
    for table in (*tables, *(one for text in pieces for one in objects_in(text))):
        if "kind" not in table:
            continue
        try:
            return _request(table)
        except _Wrong as error:
            is_known = table["kind"] in EXPECTED
            found = found or Malformed("bad_request" if is_known else "unknown_kind", str(error))
    said = "\n".join(texts)[:2000]
    if found is not None:
        return Malformed(found.code, found.problem, said)
    return Malformed("not_json", "the reply holds no JSON object with a `kind`", said)


def objects_in(text: str) -> Iterator[Mapping[str, object]]:
    """The JSON objects of a text, fenced, surrounded by words or bare, in their order; bounded, whatever the text."""
    decoder = json.JSONDecoder()
    text = text[:LONGEST_REPLY]
    at, work = text.find("{"), 0
    for _ in range(MOST_PLACES):
        if at < 0 or work > MOST_WORK:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            work += error.pos - at
            end = at + 1
        except (ValueError, RecursionError):  # a number of a million digits; a depth of a thousand
            work += RECURSION_WORK
            end = at + 1
        else:
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


def _request(table: Mapping[str, object]) -> Request:
    kind = table["kind"]
    if kind in ("exec_request", "exec"):
        command = _text(table, "command")
        if not command.strip():
            raise _Wrong("the command is empty")
        return Exec(command, _seconds(table.get("timeout")))
    if kind in ("final", "submit"):
        return Submit(str(table.get("output", "")), _end(table.get("end")))
    if kind == "read_file":
        return ReadFile(_text(table, "path"))
    if kind == "write_file":
        return WriteFile(_text(table, "path"), _content(table))
    if kind == "list_dir":
        return ListDir(_text(table, "path") if "path" in table else ".")
    if kind == "keys":
        return _keys(table)
    raise _Wrong(f"the kind {str(kind)[:80]!r} is not known here")


def _end(value: object) -> OwnEnd:
    """Why an agent ends, where it says so in a word that we know; else it hands its work in."""
    return next((end for end in ENDS if end == value), "submitted")


def _text(table: Mapping[str, object], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str):
        raise _Wrong(f"{name} is missing or no text")
    if "\0" in value:
        raise _Wrong(f"{name} holds a NUL character")
    return value


def _content(table: Mapping[str, object]) -> bytes:
    content = table.get("content")
    if not isinstance(content, str):
        raise _Wrong("content is missing or no text")
    if table.get("encoding") != "base64":
        return content.encode("utf-8", "replace")
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _Wrong(f"content is no base64: {error}") from error


def _keys(table: Mapping[str, object]) -> Keys:
    names, text = table.get("keys", []), table.get("text", "")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not isinstance(text, str):
        raise _Wrong("keys is a list of names such as C-c and Enter, text is a text")
    wait_s = _seconds(table.get("wait"))
    return Keys(tuple(names), text, min(0.5 if wait_s is None else wait_s, LONGEST_WAIT_S))


def _seconds(value: object) -> float | None:
    """A time limit, whole or not, also where it comes as a text; None for one that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def usage_in(tables: Sequence[Mapping[str, object]]) -> Usage | None:
    """What an agent says it has used so far, where it does: `usage` with tokens, and `cost_usd`."""
    for table in tables:
        told = table.get("usage")
        if isinstance(told, Mapping):
            return Usage(
                _count(told.get("input_tokens")),
                _count(told.get("output_tokens")),
                _count(told.get("cached_tokens")),
                _amount(told.get("cost_usd")),
            )
    return None


def _count(value: object) -> int | None:
    """Protobuf makes every number a float."""
    amount = _amount(value)
    return int(amount) if amount is not None and amount.is_integer() else None


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def error_message(problem: Malformed) -> dict[str, Json]:
    """What an agent is told whose reply could not be read."""
    return {"kind": "error", "code": problem.code, "message": problem.problem, "expected": list(EXPECTED)}
