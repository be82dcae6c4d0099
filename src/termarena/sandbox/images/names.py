"""Names of images: `[registry/]repository[:tag][@digest]`, filled in as Docker fills them in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from termarena.core.errors import ImageError

__all__ = ["HUB", "ImageName", "is_digest"]

HUB: Final = "docker.io"
"""The registry of names without one."""
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_REGISTRY: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
LONGEST: Final = 512


def is_digest(text: str) -> bool:
    """Whether it is `sha256:` and 64 digits."""
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ImageName:
    """A name in full."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> ImageName:
        """Raises `ImageError` for what is no name of an image."""
        rest, at, digest = text.partition("@")
        first, slash, path = rest.partition("/")
        has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
        registry, rest = (first, path) if has_registry else (HUB, rest)
        repository, colon, tag = rest.partition(":")
        if registry in (HUB, f"index.{HUB}"):
            registry = HUB
            repository = repository if "/" in repository else f"library/{repository}"
        is_right = (
            len(text) <= LONGEST
            and _REGISTRY.fullmatch(registry)
            and _REPOSITORY.fullmatch(repository)
            and (not colon or _TAG.fullmatch(tag))
            and (not at or is_digest(digest))
        )
        if not is_right:
            hint = "write [registry/]repository[:tag][@sha256:…] in small letters"
            raise ImageError(text[:LONGEST], "is no name of an image", hint=hint, cause="task")
        return cls(registry, repository, tag or (None if digest else "latest"), digest or None)

    @property
    def reference(self) -> str:
        """What a registry is asked for: the digest where there is one, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def short(self) -> str:
        """As people write it."""
        return str(self).removeprefix(f"{HUB}/").removeprefix("library/") if self.registry == HUB else str(self)

    def __str__(self) -> str:
        """In full: two names that mean the same are written the same."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")
