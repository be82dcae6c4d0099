"""`recorded:PATH`: a model that says again what real ones said, from the `messages.jsonl` of earlier attempts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import AgentError, NotFound, UsageError
from termarena.models.contract import Completion, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.core.records import Json
    from termarena.core.scrub import Scrubber
    from termarena.models.contract import Request
    from termarena.models.wire import Wire

__all__ = ["RecordedModel", "Recordings", "read_recordings"]

FILE: Final = "messages.jsonl"
# What the address of a request says about the interface that it speaks.
_WIRES: Final = {
    "/chat/completions": "termarena.models.openai:OpenAiWire",
    "/messages": "termarena.models.anthropic:AnthropicWire",
    ":generateContent": "termarena.models.google:GoogleWire",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """A request and the answer that it got."""

    url: str
    request: dict[str, Any]
    response: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recordings:
    """The conversations of earlier attempts; each that is played again takes the next of those that begin alike."""

    path: Path
    conversations: tuple[tuple[Turn, ...], ...]
    _used: Counter[str] = field(default_factory=Counter)

    def beginning_with(self, request: Json) -> tuple[Turn, ...]:
        """Raises `AgentError` where none does."""
        wanted = _canonical(request)
        found = [turns for turns in self.conversations if _canonical(turns[0].request) == wanted]
        if not found:
            raise AgentError(
                f"{self.path} has no conversation that begins like this one",
                hint="record it with the same agent, options, task and version of TermArena",
            )
        self._used[wanted] += 1
        return found[(self._used[wanted] - 1) % len(found)]


def read_recordings(path: Path) -> Recordings:
    """The recordings in a file, or in all files of a run. Raises `NotFound` and `UsageError`."""
    if not path.exists():
        raise NotFound(f"nothing is at {path}", hint=f"recorded:PATH takes a run, or the {FILE} of an attempt")
    files = [path] if path.is_file() else sorted(path.rglob(FILE))
    try:
        read = [tuple(_turns(file)) for file in files]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a recording: {error}") from error
    conversations = tuple(turns for turns in read if turns)
    if not conversations:
        raise UsageError(f"{path} holds no answer of a model behind HTTP", hint="scripts and oracles leave none")
    return Recordings(path, conversations)


def _turns(file: Path) -> Iterator[Turn]:
    """The exchanges that came to an answer; those that were tried again are left out. Raises OSError, ValueError."""
    sent: dict[str, Any] | None = None
    for line in file.read_text().splitlines():
        row = json.loads(line)
        content = row.get("content")
        if not isinstance(content, dict) or not isinstance(content.get("body"), dict) or "url" not in content:
            continue
        if row.get("direction") == "sent":
            sent = content
        elif sent is not None and content.get("status") == 200 and _wire_name(content["url"]):  # noqa: PLR2004 - HTTP's
            yield Turn(content["url"], sent["body"], content["body"])


def _wire_name(url: str) -> str | None:
    return next((wire for end, wire in _WIRES.items() if url.endswith(end)), None)


class RecordedModel:
    """See `Model`; one object serves one attempt.

    The first request must be the recorded one. Later ones may differ in what the sandbox showed, not in the number and
    the sides of the messages: whatever happens, an answer is never taken for a question that was not asked.
    """

    def __init__(self, word: str, recordings: Recordings, scrubber: Scrubber) -> None:
        """`scrubber` is that of the recording: a secret in a request was not written down."""
        self.name = word
        self.context_tokens: int | None = None
        self._recordings = recordings
        self._scrubber = scrubber
        self._turns: tuple[Turn, ...] = ()
        self._said = 0

    async def complete(
        self,
        request: Request,
        *,
        timeout_s: float,  # noqa: ARG002 - nothing is waited for
        observe: Callable[[Exchange], None] | None = None,
    ) -> Completion:
        """The recorded answer. Raises `AgentError` where the conversation has left the recording."""
        candidates = (self._turns,) if self._turns else self._recordings.conversations
        wire = _wire(candidates[0][0].url)
        body = self._scrubber.scrub_json(wire.body(str(candidates[0][0].request.get("model", "")), request))
        if not self._turns:
            self._turns = self._recordings.beginning_with(body)
        turn = self._next(body)
        if observe is not None:
            observe(Exchange(turn.url, body, 200, turn.response, 0.0))
        said = wire.completion(turn.response)
        is_same = _canonical(body) == _canonical(turn.request)
        return replace(said, extra={"replayed": "exactly" if is_same else "by its place"})

    def _next(self, body: Json) -> Turn:
        if self._said == len(self._turns):
            raise AgentError(f"{self._recordings.path} ends after {self._said} answers")
        turn = self._turns[self._said]
        if _sides(body) != _sides(turn.request):
            raise AgentError(
                f"the conversation has left {self._recordings.path} at request {self._said + 1}: "
                f"{len(_sides(body))} messages, where {len(_sides(turn.request))} were recorded"
            )
        self._said += 1
        return turn


def _wire(url: str) -> Wire:
    module, _, name = (_wire_name(url) or "").partition(":")
    made: Wire = getattr(import_module(module), name)()
    return made


def _sides(body: Json) -> list[str]:
    messages = body.get("messages", body.get("contents")) if isinstance(body, dict) else None
    return [str(row.get("role")) for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
