"""Owners of a layer's files where the store could not keep them: put back into its archive from the table."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["with_owners"]

CHUNK: Final = 1 << 20


def with_owners(stream: IO[bytes], owners: Mapping[str, tuple[int, int]]) -> Iterator[bytes]:
    """The archive in pieces, each member of the table with the owner it has there."""
    if not owners:
        while data := stream.read(CHUNK):
            yield data
        return
    reader = tar.Reader(stream)
    for member in reader:
        member.uid, member.gid = owners.get(member.name, (member.uid, member.gid))
        yield tar.header(member)
        size = 0
        while data := reader.chunk():
            size += len(data)
            yield data
        yield bytes(-size % tar.BLOCK)
    yield bytes(2 * tar.BLOCK)
