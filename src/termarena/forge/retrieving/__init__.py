"""Retrieving: recordings from servers, repositories and folders onto the forge's shelf, with where each comes from."""

from __future__ import annotations

from termarena.forge.retrieving.retrieved import Retrieved
from termarena.forge.retrieving.server import FEEDS, Feed, Mode, ServerPlan, retrieve_from_server
from termarena.forge.retrieving.shelf import RECORDINGS, Origin, Shelf, origin_beside

__all__ = [
    "FEEDS",
    "RECORDINGS",
    "Feed",
    "Mode",
    "Origin",
    "Retrieved",
    "ServerPlan",
    "Shelf",
    "origin_beside",
    "retrieve_from_server",
]
