"""A map over recordings in shards: on the cores of this machine, or on the nodes of a Ray cluster; results in order.

What is mapped is a pure function of a recording, so it does not matter where it runs, or that it runs again where a
node is lost. A few shards are under way at a time: memory does not grow with the number of files.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Self, TypeVar

from termarena.core.errors import ClusterError
from termarena.core.processors import usable_processors
from termarena.forge.casts import Loaded, load_file
from termarena.forge.ledger import code_digest
from termarena.forge.limiting import may_be_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future as PoolFuture
    from pathlib import Path
    from types import TracebackType

    from termarena.runs.cluster.asking import Asking

__all__ = ["HERE", "Where", "map_files"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Future = TypeVar("Future")
SHARD_FILES: Final = 8
"""As many as take about a tenth of a second: small enough to share out evenly."""
AHEAD: Final = 3
"""Shards under way for each processor: it never waits for the next one."""


@dataclass(frozen=True, slots=True)
class Where:
    """Who does the work."""

    jobs: int | None = None
    """Processes of this machine; None: one for each core; 1: this one."""
    cluster: Asking | None = None
    """Its nodes instead. They are sent the files' bytes, and need share no folder with this machine."""


HERE: Final = Where()


def map_files(work: Callable[[Loaded], Result], paths: Iterable[Path], where: Where) -> Iterator[Result]:
    """What `work` makes of each file, in order; it and what it gives must be such as can be sent to another process.

    Of a file that ends the process which reads it, or holds it where nothing interrupts it, `work` gets a `problem` and
    no bytes. Raises what `work` raises, `ClusterError` where a node has other code than this machine, `HeadLost`, and
    `BrokenProcessPool` where processes cannot be had.
    """
    if where.cluster is not None:
        yield from _on_nodes(work, paths, where.cluster)
        return
    files = iter(paths)
    first = list(islice(files, SHARD_FILES))
    jobs = where.jobs or usable_processors()
    rest = list(islice(files, 1))
    if jobs == 1 or not rest:
        yield from (work(load_file(path)) for shard in (first, rest, files) for path in shard)
        return

    def every() -> Iterator[Path]:
        for shard in (first, rest, files):
            yield from shard

    with _Pool(work, jobs) as pool:
        yield from _in_order(pool.submit, pool.result, every(), AHEAD * jobs)


class _Pool(Generic[Result]):
    """Processes that read. One that dies takes its recording with it, and nothing else.

    A dead process breaks a whole pool, and nobody says at which file: what was under way is done again apart, and where
    that breaks, too, file by file.
    """

    def __init__(self, work: Callable[[Loaded], Result], jobs: int) -> None:
        self._work, self._jobs = work, jobs
        self._pool = _processes(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, shard: list[Path]) -> _Shard[Result]:
        try:
            return _Shard(shard, self._pool.submit(_read_all, self._work, shard))
        except BrokenProcessPool:
            self._pool.shutdown()
            self._pool = _processes(self._jobs)
            return _Shard(shard, self._pool.submit(_read_all, self._work, shard))

    def result(self, shard: _Shard[Result]) -> Iterable[Result]:
        try:
            return shard.future.result()
        except BrokenProcessPool:
            return self._apart(shard.paths) or [self._alone(path) for path in shard.paths]

    def _alone(self, path: Path) -> Result:
        if found := self._apart([path]):
            return found[0]
        told = load_file(path).path
        return self._work(Loaded(told, b"", problem=f"{told} ended the process that was to read it, or held it"))

    def _apart(self, paths: list[Path]) -> list[Result]:
        """What comes of these files in a process of their own; nothing where it dies. Raises `BrokenProcessPool` where
        one dies that has nothing to read: no file is to blame for that."""
        with _processes(1) as pool:
            pool.submit(len, ()).result()
            try:
                return pool.submit(_read_all, self._work, paths).result()
            except BrokenProcessPool:
                return []


class _Shard(NamedTuple, Generic[Result]):
    paths: list[Path]
    future: PoolFuture[list[Result]]


def _processes(jobs: int) -> ProcessPoolExecutor:
    """A fresh interpreter for each: the parent may have threads, and a fork would copy their locks."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=may_be_ended)


def _on_nodes(work: Callable[[Loaded], Result], paths: Iterable[Path], asking: Asking) -> Iterator[Result]:
    ask, cluster = asking.ask, asking.cluster
    carry_out = ask(cluster.as_map, _carry_out)
    ahead = AHEAD * max(1, round(sum(node.cpus for node in ask(cluster.some_nodes))))

    def result(reference: Any) -> list[Result]:  # noqa: ANN401 - Ray's
        try:
            found: list[Result] = ask(cluster.ray.get, reference)
        except cluster.ray.exceptions.RayError as error:
            asking.check_head()
            hint = "see that every node has the same version of TermArena, with the extra forge"
            raise ClusterError(cluster.words_of(error), hint=hint) from error
        return found

    loaded = (load_file(path) for path in paths)
    yield from _in_order(lambda shard: ask(carry_out.remote, work, shard, code_digest()), result, loaded, ahead)


def _in_order(
    submit: Callable[[list[Item]], Future],
    result: Callable[[Future], Iterable[Result]],
    items: Iterator[Item],
    ahead: int,
) -> Iterator[Result]:
    waiting: deque[Future] = deque()
    while shard := list(islice(items, SHARD_FILES)):
        waiting.append(submit(shard))
        if len(waiting) >= ahead:
            yield from result(waiting.popleft())
    while waiting:
        yield from result(waiting.popleft())


def _read_all(work: Callable[[Loaded], Result], paths: Sequence[Path]) -> list[Result]:
    return [work(load_file(path)) for path in paths]


def _carry_out(work: Callable[[Loaded], Result], items: Sequence[Loaded], code: str) -> list[Result]:
    """On a node: the same code, or none."""
    if code_digest() != code:
        raise ClusterError("a node has another version of the forge than this machine")
    return [work(item) for item in items]
