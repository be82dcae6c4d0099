"""What an image says of itself: its layers, and how its commands run. OCI's form, which Docker reads too."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import dataclass, field, replace
from typing import Any, Final

from termarena.core.errors import ImageError
from termarena.sandbox.images.names import is_digest

__all__ = ["ImageConfig", "digest_of", "this_architecture"]

MAX_LAYERS: Final = 450
"""Overlayfs takes 500 lower layers; a sandbox adds a few of its own."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def this_architecture() -> str:
    """This machine's, in the words of images."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def digest_of(content: bytes) -> str:
    """`sha256:` and its digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """How an image's commands run, and which layers it is made of, lowest first."""

    diff_ids: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""
    user: str = ""
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    healthcheck: dict[str, Any] | None = None
    stop_signal: str = ""
    shell: tuple[str, ...] | None = None
    onbuild: tuple[str, ...] = ()
    architecture: str = field(default_factory=this_architecture)

    @property
    def files_digest(self) -> str:
        """Of its files: the same wherever its layers are."""
        return digest_of("\n".join(self.diff_ids).encode())

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return dict(self.env)

    def with_variable(self, name: str, value: str) -> ImageConfig:
        """With one variable more, in the place of an earlier one of that name."""
        kept = {**self.environment, name: value}
        return replace(self, env=tuple(kept.items()))

    @classmethod
    def parse(cls, content: bytes, *, source: str) -> ImageConfig:
        """Raises `ImageError` for what is no configuration of an image for Linux."""
        try:
            return cls._from(json.loads(content))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ImageError(source, f"its configuration cannot be read: {error}") from error

    @classmethod
    def _from(cls, document: dict[str, Any]) -> ImageConfig:
        if document.get("os", "linux") != "linux":
            raise ValueError(f"it is for {document['os']}")
        diff_ids = tuple(str(one) for one in (document.get("rootfs") or {}).get("diff_ids") or ())
        if len(diff_ids) > MAX_LAYERS or not all(map(is_digest, diff_ids)):
            raise ValueError(f"its layers are not at most {MAX_LAYERS} digests of SHA-256")
        told = document.get("config") or {}
        return cls(
            diff_ids=diff_ids,
            env=tuple(_pair(one) for one in told.get("Env") or ()),
            workdir=str(told.get("WorkingDir") or ""),
            user=str(told.get("User") or ""),
            entrypoint=_words(told.get("Entrypoint")),
            cmd=_words(told.get("Cmd")),
            labels=tuple((str(k), str(v)) for k, v in (told.get("Labels") or {}).items()),
            ports=tuple(map(str, told.get("ExposedPorts") or ())),
            volumes=tuple(map(str, told.get("Volumes") or ())),
            healthcheck=told.get("Healthcheck"),
            stop_signal=str(told.get("StopSignal") or ""),
            shell=_words(told.get("Shell")),
            onbuild=tuple(map(str, told.get("OnBuild") or ())),
            architecture=str(document.get("architecture") or this_architecture()),
        )

    def as_json(self) -> bytes:
        """The configuration as it is digested and exported; equal values give equal bytes."""
        told: dict[str, Any] = {
            "Env": [f"{name}={value}" for name, value in self.env],
            "WorkingDir": self.workdir,
            "User": self.user,
            "Entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "Cmd": None if self.cmd is None else list(self.cmd),
            "Labels": dict(self.labels),
            "ExposedPorts": {port: {} for port in self.ports},
            "Volumes": {volume: {} for volume in self.volumes},
            "Healthcheck": self.healthcheck,
            "StopSignal": self.stop_signal,
            "Shell": None if self.shell is None else list(self.shell),
            "OnBuild": list(self.onbuild),
        }
        kept = {name: value for name, value in told.items() if value or (name == "Entrypoint" and value == [])}
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "config": kept,
            "rootfs": {"type": "layers", "diff_ids": list(self.diff_ids)},
            "history": [{"created_by": "termarena"} for _ in self.diff_ids],
        }
        return json.dumps(document, sort_keys=True).encode()


def _pair(text: object) -> tuple[str, str]:
    name, _, value = str(text).partition("=")
    return name, value


def _words(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError("a command is no list of words")
    return tuple(map(str, value))
