"""The folder for what can be fetched or made again: caches. Deleting it costs time, never results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Home", "default_home", "user_folder"]

# The signature that backup programs look for (bford.info/cachedir).
CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds what TermArena can fetch or make again.\n"


def default_home(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/termarena`, or `~/.cache/termarena`. Touches nothing."""
    base = environment.get("XDG_CACHE_HOME", "")
    # The XDG specification asks that a relative path be ignored.
    return (Path(base) if base.startswith("/") else user_folder(environment) / ".cache") / "termarena"


def user_folder(environment: Mapping[str, str]) -> Path:
    """The user's own folder: `$HOME`, or what the system knows."""
    named = environment.get("HOME")
    return Path(named) if named else Path.home()


@dataclass(frozen=True)
class Home:
    """The cache folder; nothing is created until a part of it is asked for."""

    path: Path

    def folder(self, *names: str) -> Path:
        """A folder below home, made when it is not there.

        Raises UsageError when it cannot be made, with the setting that moves it elsewhere.
        """
        wanted = self.path.joinpath(*names)
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            self._tag()
        except OSError as error:
            raise UsageError(
                f"cannot make the cache folder {wanted}: {error.strerror}",
                hint="name one that can be written: TERMARENA_HOME, or home under [paths] in termarena.toml",
            ) from error
        return wanted

    def _tag(self) -> None:
        tag = self.path / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(CACHE_TAG, encoding="utf-8")
