"""Recorded fetches: the downloads of builds and tests, kept by digest, and given again where there is no network."""

from __future__ import annotations

from termarena.sandbox.fetches.index import BLOBS, INDEX, FetchEntry, read_index
from termarena.sandbox.fetches.session import open_fetches

__all__ = ["BLOBS", "INDEX", "FetchEntry", "open_fetches", "read_index"]
