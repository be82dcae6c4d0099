"""Credentials for registries, as `docker login` keeps them: in its file, or with the helper that the file names."""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from termarena.core.errors import UsageError
from termarena.sandbox.images.names import HUB

__all__ = ["Credentials", "find_credentials"]

HELPER_TIMEOUT_S: Final = 30.0
IDENTITY_USER: Final = "<token>"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's word for one registry."""

    user: str
    password: str = field(repr=False)
    identity_token: str | None = field(default=None, repr=False)


def find_credentials(registry: str) -> Credentials | None:
    """What the user's Docker configuration has for the registry; None for nothing.

    Raises `UsageError` for a configuration or a helper that does not answer as it should; no secret is in it.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        document = json.loads((folder / "config.json").read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'} cannot be read", hint="log in anew: docker login") from error
    if not isinstance(document, dict):
        return None
    keys = _keys(registry)
    helper = next((h for k, h in (document.get("credHelpers") or {}).items() if k in keys), document.get("credsStore"))
    if helper:
        return _ask(str(helper), keys)
    entries = document.get("auths") or {}
    return next((found for key in keys if (found := _stored(entries.get(key))) is not None), None)


def _keys(registry: str) -> list[str]:
    """How the registry may be called in the file."""
    if registry == HUB:
        return [f"https://index.{HUB}/v1/", f"index.{HUB}", HUB]
    return [registry, f"https://{registry}", f"http://{registry}", f"https://{registry}/", f"https://{registry}/v2/"]


def _stored(entry: Any) -> Credentials | None:  # noqa: ANN401 - foreign JSON
    if not isinstance(entry, dict):
        return None
    token = entry.get("identitytoken")
    if entry.get("username") and "password" in entry:
        return Credentials(str(entry["username"]), str(entry["password"]), token)
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(user, password.rstrip("\0"), token) if colon or token else None


def _ask(helper: str, keys: list[str]) -> Credentials | None:
    program = shutil.which(f"docker-credential-{helper}") if helper.replace("-", "").isalnum() else None
    if program is None:
        raise UsageError(f"the helper docker-credential-{helper} is not installed", hint="install it, or log in anew")
    for key in keys:
        done = subprocess.run(  # noqa: S603 - the user's own configuration names it
            [program, "get"], input=key.encode(), capture_output=True, timeout=HELPER_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            continue
        try:
            told = json.loads(done.stdout)
            user, secret = str(told["Username"]), str(told["Secret"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"docker-credential-{helper} gave no credentials", hint="log in anew") from error
        return Credentials("", "", secret) if user == IDENTITY_USER else Credentials(user, secret)
    return None
