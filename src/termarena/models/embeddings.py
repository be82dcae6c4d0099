"""Likeness of texts by the embeddings of a model, over the interface of OpenAI (`POST …/embeddings`)."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from termarena.models.contract import Completion, Message, Request, TokenUsage
from termarena.models.errors import UnusableReply
from termarena.models.openai import OpenAiWire
from termarena.models.wire import Reply, read_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.records import Json
    from termarena.models.run_models import RunModels

__all__ = ["EmbeddingWire", "Embeddings"]

TIMEOUT_S: Final = 120.0
AT_ONCE: Final = 64
"""Texts in one request: no provider takes fewer."""
LONGEST_CHARACTERS: Final = 8000
"""Of one text: what the smaller models for embeddings read."""


class _Row(Reply):
    index: int
    embedding: tuple[float, ...]


class _Used(Reply):
    prompt_tokens: int | None = None


class _Answer(Reply):
    data: tuple[_Row, ...]
    usage: _Used | None = None


class EmbeddingWire(OpenAiWire):
    """See `Wire`: each message is a text, and the completion has their vectors in `extra`."""

    def path(self, model: str) -> str:  # noqa: ARG002 - the model stands in the body
        """Of embeddings."""
        return "/embeddings"

    def body(self, model: str, request: Request) -> dict[str, Json]:
        """The texts."""
        return {"model": model, "input": [message.content for message in request.messages]}

    def completion(self, document: dict[str, Any]) -> Completion:
        """The vectors, in the order of the texts. Raises `UnusableReply`."""
        answer: _Answer = read_reply(_Answer, document)
        vectors: list[Json] = [[*row.embedding] for row in sorted(answer.data, key=lambda row: row.index)]
        used = TokenUsage(answer.usage.prompt_tokens if answer.usage else None, 0)
        return Completion(Message("assistant", ""), "stop", used, extra={"vectors": vectors})


class Embeddings:
    """How alike texts are, as one model sees it. Each text is sent once, however often it is asked about."""

    def __init__(self, models: RunModels, word: str) -> None:
        """`word` as of `--model`. Raises what `RunModels.check_embeddings` raises."""
        models.check_embeddings(word)
        self.word = word
        self._models = models
        self._known: dict[str, tuple[float, ...]] = {}
        self._asking = asyncio.Lock()

    async def likeness(self, query: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each text with the query: 1 is the same direction. Raises what `Model.complete` raises."""
        async with self._asking:
            await self._learn(dict.fromkeys(text[:LONGEST_CHARACTERS] for text in (query, *texts)))
        asked = self._known[query[:LONGEST_CHARACTERS]]
        return [_cosine(asked, self._known[text[:LONGEST_CHARACTERS]]) for text in texts]

    async def _learn(self, texts: dict[str, None]) -> None:
        new = [text for text in texts if text not in self._known]
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            request = Request(tuple(Message("user", text) for text in part))
            answer = await self._models.open_embeddings(self.word).complete(request, timeout_s=TIMEOUT_S)
            vectors = answer.extra["vectors"]
            if not isinstance(vectors, list) or len(vectors) != len(part):
                raise UnusableReply(f"{len(part)} texts were sent to {self.word}, and not as many vectors came back")
            self._known |= {text: _unit(vector) for text, vector in zip(part, vectors, strict=True)}
        if len({len(vector) for vector in self._known.values()}) > 1:
            raise UnusableReply(f"the vectors of {self.word} differ in length")


def _unit(vector: Any) -> tuple[float, ...]:  # noqa: ANN401 - checked by `_Row`
    length = math.hypot(*vector)
    if not vector or not math.isfinite(length) or length == 0:
        raise UnusableReply("an embedding has no direction")
    return tuple(value / length for value in vector)


def _cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
