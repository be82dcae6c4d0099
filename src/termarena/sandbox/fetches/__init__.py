"""Recorded fetches: the downloads of builds and tests, kept by digest, and given again where there is no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.sandbox.fetches.index import BLOBS, INDEX, FetchEntry, read_index
    from termarena.sandbox.fetches.session import open_fetches
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        index="BLOBS INDEX FetchEntry read_index",
        session="open_fetches",
    )

__all__ = ["BLOBS", "INDEX", "FetchEntry", "open_fetches", "read_index"]
