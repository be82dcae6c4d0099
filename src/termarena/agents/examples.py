"""Solved examples for a model: the ones most like the task, and never the task itself."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, TypeAdapter

from termarena.agents.toolbox import Action
from termarena.core.trajectory import Step
from termarena.models import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.models.embeddings import Embeddings
    from termarena.tasks.model import Task

__all__ = [
    "Example",
    "ExampleStore",
    "ExampleTurn",
    "Retrieval",
    "builtin_examples",
    "retrieve",
    "retrieve_by",
    "show_as_text",
    "show_as_turns",
]

BM25: Final = "bm25"
# Of BM25, as they are usually chosen.
_K1: Final = 1.5
_B: Final = 0.75
SHINGLE_WORDS: Final = 5
SAME_SHARE: Final = 0.5
"""An instruction that shares so much of its runs of five words with the task's is the same task in other clothes."""
# In a small store even these would seem rare.
_COMMON: Final = frozenset({
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "below", "by", "every", "followed", "for", "from",
    "has", "how", "in", "into", "is", "it", "its", "must", "no", "not", "nothing", "of", "on", "one", "or", "own",
    "so", "such", "that", "the", "their", "them", "then", "there", "this", "to", "under", "use", "with", "you",
    "your",
})  # fmt: skip
_WORD: Final = re.compile(r"[a-z0-9]+")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleTurn(_Frozen):
    """An action and what came of it."""

    action: str
    arguments: dict[str, Any]
    outcome: str


class Example(_Frozen):
    """How a task was solved."""

    task_id: str
    digest: str | None = None
    """Of the task; None for examples that are no task."""
    instruction: str
    turns: tuple[ExampleTurn, ...]
    source: str = "builtin"
    """The run that it comes from."""


class ExampleStore(Protocol):
    """Where examples come from."""

    def examples(self) -> Sequence[Example]:
        """All of them."""


class Chosen(NamedTuple):
    """An example with its likeness to the task."""

    example: Example
    score: float


class LeftOut(NamedTuple):
    """An example that must not be shown."""

    task_id: str
    why: str


class Retrieval(NamedTuple):
    """What is shown to a model, and what was kept from it."""

    chosen: tuple[Chosen, ...]
    left_out: tuple[LeftOut, ...]
    by: str = BM25
    """What said how alike they are: BM25, or the model whose embeddings did."""

    def step(self) -> Step:
        """For the trajectory."""
        shown = [
            {"task_id": each.example.task_id, "digest": each.example.digest, "source": each.example.source}
            | {"score": round(each.score, 4)}
            for each in self.chosen
        ]
        kept = [{"task_id": each.task_id, "why": each.why} for each in self.left_out]
        message = f"solved examples shown to the model: {len(shown)}; kept from it: {len(kept)}"
        return Step(source="system", message=message, extra={"examples": shown, "left_out": kept, "by": self.by})


@functools.cache
def builtin_examples() -> tuple[Example, ...]:
    """A few small ones that come with this version; none of them is a task."""
    text = files("termarena.agents").joinpath("examples.json").read_bytes()
    return tuple(TypeAdapter(list[Example]).validate_json(text))


def retrieve(task: Task, instruction: str, examples: Sequence[Example], *, count: int) -> Retrieval:
    """The `count` examples most like an instruction of a task, by BM25; none that is this task, or nearly."""
    fit, left_out = _sifted(task, instruction, examples)
    return Retrieval(_most_alike(_scored(instruction, fit), count), left_out)


async def retrieve_by(
    embeddings: Embeddings, task: Task, instruction: str, examples: Sequence[Example], *, count: int
) -> Retrieval:
    """As `retrieve`, by what a model thinks alike. Raises what asking it raises."""
    fit, left_out = _sifted(task, instruction, examples)
    scores = await embeddings.likeness(instruction, [example.instruction for example in fit]) if fit else []
    chosen = _most_alike([Chosen(*pair) for pair in zip(fit, scores, strict=True)], count)
    return Retrieval(chosen, left_out, by=embeddings.word)


def _sifted(task: Task, instruction: str, examples: Sequence[Example]) -> tuple[list[Example], tuple[LeftOut, ...]]:
    """The examples that may be shown, and those that may not."""
    left_out: list[LeftOut] = []
    fit: list[Example] = []
    for example in examples:
        why = _contamination(task, instruction, example)
        if why is None:
            fit.append(example)
        else:
            left_out.append(LeftOut(example.task_id, why))
    return fit, tuple(left_out)


def _most_alike(scored: Sequence[Chosen], count: int) -> tuple[Chosen, ...]:
    ranked = sorted(scored, key=lambda each: (-each.score, each.example.task_id))
    return tuple(each for each in ranked[:count] if each.score > 0)


def _contamination(task: Task, instruction: str, example: Example) -> str | None:
    """Why an example would give this task away; None where it does not."""
    if example.task_id == task.id:
        return "it is the task"
    if example.digest is not None and example.digest == task.digest:
        return "it is the task under another name"
    of_task, of_example = _shingles(instruction), _shingles(example.instruction)
    shared = len(of_task & of_example)
    if shared and shared >= SAME_SHARE * min(len(of_task), len(of_example)):
        return "its instruction is nearly the same"
    return None


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _terms(text: str) -> list[str]:
    return [word for word in _words(text) if word not in _COMMON]


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    size = min(SHINGLE_WORDS, len(words))
    return {tuple(words[place : place + size]) for place in range(len(words) - size + 1)} if words else set()


def _scored(query: str, examples: Sequence[Example]) -> list[Chosen]:
    documents = [Counter(_terms(example.instruction)) for example in examples]
    if not documents:
        return []
    mean = sum(map(Counter.total, documents)) / len(documents)
    holding = Counter(word for document in documents for word in document)
    weights = {
        word: math.log(1 + (len(documents) - holding[word] + 0.5) / (holding[word] + 0.5))
        for word in set(_terms(query))
    }
    return [
        Chosen(example, sum(_weight(document, word, mean) * weight for word, weight in weights.items()))
        for example, document in zip(examples, documents, strict=True)
    ]


def _weight(document: Counter[str], word: str, mean: float) -> float:
    found = document[word]
    return found * (_K1 + 1) / (found + _K1 * (1 - _B + _B * document.total() / mean))


def show_as_turns(retrieval: Retrieval) -> list[Message]:
    """The examples as conversations in the text form, the one most like the task last.

    They stop at the last action: small models that see a task handed in hand the next one in at once.
    """
    messages: list[Message] = []
    for each in reversed(retrieval.chosen):
        told = each.example.instruction
        for turn in each.example.turns:
            messages += [Message("user", told), Message("assistant", _written(turn))]
            told = f"{turn.action}:\n{turn.outcome}"
    return messages


def show_as_text(retrieval: Retrieval) -> str:
    """The examples in one text."""
    parts = [
        f"A task that was solved:\n{each.example.instruction.strip()}\n\nWhat was done:\n"
        + "\n\n".join(f"{_written(turn)}\n→ {turn.outcome}" for turn in each.example.turns)
        for each in retrieval.chosen
    ]
    return "\n\n".join(parts)


def _written(turn: ExampleTurn) -> str:
    action = Action("", turn.action, turn.arguments)
    rows = [f"ACTION: {action.name}"]
    for name, value in action.arguments.items():
        text = str(value)
        if "\n" not in text and name != "content":
            rows.append(f"{name.upper()}: {text}")
            continue
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
        rows.append(f"{name.upper()}:\n{fence}\n{text.rstrip(chr(10))}\n{fence}")
    return "\n".join(rows)
