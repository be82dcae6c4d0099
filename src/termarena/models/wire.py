"""What an HTTP interface to models has to say for itself, and what the documents of several have in common."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from termarena.models.errors import UnusableReply

if TYPE_CHECKING:
    from termarena.core.records import Json
    from termarena.models.contract import Completion, Request

__all__ = ["Problem", "Reply", "Wire", "as_object", "is_overflow", "problem_in", "read_reply", "values_in"]

# Providers word it differently, and some give no code at all.
_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|context[ _](?:length|window|size)|maximum context|prompt is too long|too many tokens"
    r"|input is too long|exceeds? the (?:maximum|available|limit)[^.]{0,40}tokens|input token count",
    re.IGNORECASE,
)


class Reply(BaseModel):
    """A part of an answer: what is not read is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Problem(Reply):
    """What a provider says when it declines."""

    message: str = ""
    code: str | int | None = None
    type: str | None = None

    @property
    def text(self) -> str:
        """For people."""
        return self.message or str(self.code or self.type or "no reason was given")


class Wire(Protocol):
    """An interface; it holds nothing and reaches nothing."""

    def path(self, model: str) -> str:
        """Where a request goes, behind the endpoint's address."""

    def headers(self, key: str | None) -> dict[str, str]:
        """What goes with it."""

    def body(self, model: str, request: Request) -> dict[str, Json]:
        """The request."""

    def completion(self, document: dict[str, Any]) -> Completion:
        """The answer. Raises `UnusableReply`."""

    def problem(self, document: Json) -> Problem | None:
        """What is wrong, where the document says that something is."""

    def listing(self) -> str:
        """Where the models are listed."""

    def listed(self, document: Json) -> tuple[str, ...] | None:
        """The names in such a list; None where it is none."""


def is_overflow(problem: Problem) -> bool:
    """Whether a refusal means that the conversation is too long."""
    return bool(_OVERFLOW.search(f"{problem.code} {problem.type} {problem.message}"))


def read_reply(kind: type[Any], document: object) -> Any:  # noqa: ANN401 - the caller's own class
    """The document as this class. Raises `UnusableReply` with what does not fit."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise UnusableReply(f"the answer is not what the interface promises: {where}: {first['msg']}") from error


def problem_in(document: Json) -> Problem | None:
    """The object under `error`, as text where its fields are not what they should be; None where there is none."""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None
    try:
        return Problem.model_validate(error)
    except ValidationError:
        return Problem(message=str(error))


def values_in(document: Json, rows: str, field: str) -> tuple[str, ...] | None:
    """What `field` is in each of the document's `rows` that has it; None where there is no such list."""
    found = document.get(rows) if isinstance(document, dict) else None
    if not isinstance(found, list):
        return None
    return tuple(str(row[field]) for row in found if isinstance(row, dict) and field in row)


def as_object(arguments: str) -> dict[str, Json]:
    """A call's arguments, for interfaces that take objects only: what is none goes back as the text that it was."""
    try:
        value: Json = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"unreadable": arguments}
