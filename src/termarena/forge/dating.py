"""Packages as they were on a day: an archive that keeps Debian by the moment, an index that tells when files came.

Neither is asked unless the settings name one: they are servers of the user's own choice.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RELEASED", "PackageRules", "archive_of", "versions_on"]

RELEASED: Final = "2023-06-10"
"""The day of Debian 12, which images begin with: what is older was another release."""
TIMEOUT_S: Final = 30
LARGEST_BYTES: Final = 32 << 20
JSON: Final = "application/vnd.pypi.simple.v1+json"
# Without a name and a password before the host: the address goes into tasks.
_ADDRESS: Final = r"https?://[\w.:/%+~-]+"
_FINAL: Final = re.compile(r"\d+(?:\.\d+){0,5}(?:\.post\d+)?")


class PackageRules(BaseModel):
    """Where packages of a day are to be had."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    debian_archive: str | None = Field(None, pattern=f"^{_ADDRESS}$")
    """An archive that has Debian below one folder for each moment, as 20240301T000000Z; None: as the base has it. By
    https only where the base image has certificates, which the slim ones do not; packages are signed either way."""
    python_index: str | None = Field(None, pattern=f"^{_ADDRESS}$")
    """An index that tells in JSON when files were uploaded (PEP 691, PEP 700); None: the newest, which is told."""


def archive_of(rules: PackageRules, recorded_at: str | None) -> str | None:
    """The archive's folder for the end of the recording's day; None for days before the release, or none known."""
    if rules.debian_archive is None or recorded_at is None or recorded_at[:10] < RELEASED:
        return None
    return f"{rules.debian_archive.rstrip('/')}/{recorded_at[:10].replace('-', '')}T235959Z"


def versions_on(rules: PackageRules, names: Iterable[str], recorded_at: str | None) -> dict[str, str]:
    """The newest final version of each package on that day; of one that nothing is told about, none."""
    if rules.python_index is None or recorded_at is None:
        return {}
    found = {name: _newest(_files(rules.python_index.rstrip("/"), name), recorded_at[:10]) for name in names}
    return {name: version for name, version in found.items() if version is not None}


@cache
def _files(index: str, name: str) -> tuple[tuple[str, str], ...]:
    """Versions and days of upload, of every file that is not withdrawn."""
    plain = re.sub(r"[-_.]+", "-", re.sub(r"\[.*", "", name)).lower()
    request = urllib.request.Request(f"{index}/{quote(plain)}/", headers={"Accept": JSON})  # noqa: S310 - http by the pattern of the setting
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            document: Any = json.loads(answer.read(LARGEST_BYTES))
        listed = [one for one in document["files"] if not one.get("yanked") and one.get("upload-time")]
        return tuple((_version(one["filename"], plain), str(one["upload-time"])[:10]) for one in listed)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _version(file: str, plain: str) -> str:
    """Out of `six-1.16.0-py2.py3-none-any.whl` or `six-1.16.0.tar.gz`; empty for any other name."""
    name = re.escape(plain).replace(r"\-", "[-_.]+")
    found = re.match(rf"(?i){name}-([^-]+?)(?:-.*\.whl|\.tar\.gz|\.zip)$", file)
    return found[1] if found else ""


def _newest(files: tuple[tuple[str, str], ...], day: str) -> str | None:
    there = [version for version, uploaded in files if uploaded <= day and _FINAL.fullmatch(version)]
    return max(there, key=_order, default=None)


def _order(version: str) -> tuple[list[int], int]:
    release, _, post = version.partition(".post")
    parts = [int(part) for part in release.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return parts, int(post or -1)
