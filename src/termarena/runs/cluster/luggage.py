"""The files of this machine that a run's options name: they go to the nodes by value, and lie elsewhere there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.core.errors import NotFound, UsageError
from termarena.runs.cluster.parcels import pack_named, unpack
from termarena.runs.solved import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from termarena.runs.cluster.parcels import Parcel
    from termarena.runs.plan import RunOptions

__all__ = ["LARGEST_BYTES", "NOTHING", "Luggage", "check_out", "named_files", "take_along"]

LARGEST_BYTES: Final = 64 << 20
"""Of everything together: every process that runs trials has its own copy."""
FILES_OF_RUNS: Final = frozenset({"config.lock.json", "journal.jsonl", "trajectory.json", "messages.jsonl"})
"""What examples and recorded models read of a run; its states and recordings stay here."""
_AGENTS: Final = ("script", "replay")
_MODELS: Final = ("scripted", "recorded")


class Luggage(NamedTuple):
    """What goes along with every order."""

    places: tuple[tuple[str, str], ...] = ()
    """Each file as it was given, and where it lies below the folder that it is laid into."""
    parcels: tuple[Any, ...] = ()
    """Where the cluster's memory has them."""


NOTHING: Final = Luggage()


def named_files(options: RunOptions) -> tuple[str, ...]:
    """The files and folders of this machine that are meant, as they were given, each once."""
    return tuple(dict.fromkeys(_named(options)))


def _named(options: RunOptions) -> Iterator[str]:
    for word, kinds in ((options.agent, _AGENTS), (options.model or "", _MODELS)):
        kind, _, path = word.partition(":")
        if kind in kinds:
            yield path
    yield from (word for word in options.examples if word != BUILTIN)
    if options.tools is not None:
        yield options.tools


def take_along(options: RunOptions, put: Callable[[Parcel], Any]) -> Luggage:
    """Send what the options name; `put` lays a parcel into the cluster's memory.

    Raises `NotFound` for a path where nothing is, `UsageError` for more than can be sent, OSError.
    """
    names = named_files(options)
    for name in names:
        if not Path(name).exists():
            raise NotFound(
                f"nothing is at {name}", hint="what a run names must be on this machine: it is sent to nodes"
            )
    if not names:
        return NOTHING
    places = tuple((name, _place(number, name)) for number, name in enumerate(names))
    parcels: list[Any] = []
    size = 0
    for parcel in pack_named({place: Path(name) for name, place in places}, FILES_OF_RUNS):
        size += sum(len(piece.data) for piece in parcel)
        if size > LARGEST_BYTES:
            raise UsageError(
                f"{', '.join(names)}: more than the {LARGEST_BYTES >> 20} MiB that are sent to the nodes of a cluster",
                hint="name smaller files, fewer runs of --examples, or take --engine local",
            )
        parcels.append(put(parcel))
    return Luggage(places, tuple(parcels))


def check_out(luggage: Luggage, folder: Path, get: Callable[[Any], Parcel]) -> dict[str, Path]:
    """On a node: lay the files below an empty folder; where each lies that was named. Raises OSError."""
    for parcel in luggage.parcels:
        unpack(get(parcel), folder)
    return {name: folder / place for name, place in luggage.places}


def _place(number: int, name: str) -> str:
    """It keeps its own name, which records tell, and is told apart from others of that name."""
    return f"{number}/{Path(name).absolute().name or 'root'}"
