"""Where pages are: on a server, or beside each other in a folder."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol
from urllib.parse import quote as quote_anew
from urllib.parse import urlencode

__all__ = ["Links", "ServerLinks"]


quote = lru_cache(maxsize=4096)(quote_anew)
"""A page of a run has the same few names five hundred times."""


class Links(Protocol):
    """The address of everything that a page may lead to; None where there is no such page."""

    def asset(self, name: str) -> str:
        """A stylesheet or a script."""

    def home(self) -> str | None:
        """The front page."""

    def dataset(self, digest: str) -> str | None:
        """The leaderboard of a set of tasks."""

    def run(self, slug: str, **filters: str | int | None) -> str | None:
        """A run, with what its matrix is to show."""

    def trial(self, run: str, task: str, attempt: int, **chosen: int) -> str | None:
        """A trial."""

    def task(self, slug: str) -> str | None:
        """A task."""

    def agent(self, entrant: str) -> str | None:
        """An agent in one setup."""

    def file(self, run: str, task: str, place: str, name: str) -> str | None:
        """A file of an attempt; `place` is `1`, or `1-retry-2`."""


class ServerLinks:
    """Of a server, whatever name it is asked for by."""

    def asset(self, name: str) -> str:
        """Under /assets."""
        return f"/assets/{name}"

    def home(self) -> str:
        """The front page."""
        return "/"

    def dataset(self, digest: str) -> str:
        """Under /datasets."""
        return f"/datasets/{quote(digest, safe=':')}"

    def run(self, slug: str, **filters: str | int | None) -> str:
        """Under /runs."""
        return f"/runs/{quote(slug, safe='')}{_query(filters)}"

    def trial(self, run: str, task: str, attempt: int, **chosen: int) -> str:
        """Below its run."""
        return f"{self.run(run)}/{quote(task, safe='')}/{attempt}{_query(chosen)}"

    def task(self, slug: str) -> str:
        """Under /tasks."""
        return f"/tasks/{quote(slug, safe='')}"

    def agent(self, entrant: str) -> str:
        """Under /agents."""
        return f"/agents/{quote(entrant, safe='')}"

    def file(self, run: str, task: str, place: str, name: str) -> str:
        """The API has the files."""
        return f"/api/runs/{quote(run, safe='')}/trials/{quote(task, safe='')}/{place}/{name}"


def _query(chosen: dict[str, str | int | None] | dict[str, int]) -> str:
    given = {name: value for name, value in chosen.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""
