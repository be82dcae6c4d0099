"""Harbor's `dataset.toml`: which tasks make up a dataset, each pinned by the digest that Harbor gives its folder."""

from __future__ import annotations

import hashlib
import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Strict

from termarena.core.errors import TaskFormatError
from termarena.tasks.checking import Checker
from termarena.tasks.documents import parse_toml, read_text
from termarena.tasks.files import scan
from termarena.tasks.harbor_schema import AuthorSection
from termarena.tasks.markers import MANIFEST
from termarena.tasks.model import Finding, Frozen, Strings

if TYPE_CHECKING:
    from termarena.tasks.files import TreeFile
    from termarena.tasks.model import FreeTable

__all__ = ["Manifest", "changed_task", "harbor_digest", "missing_task", "read_manifest"]

KNOWN_SCHEMAS = ("1.0",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")
# What Harbor packs of a task's folder, and what it leaves out of that where the folder has no .gitignore.
_PACKED_FILES = frozenset({"task.toml", "instruction.md", "README.md", "trajectory.json"})
_PACKED_FOLDERS = ("environment/", "tests/", "solution/", "steps/")
_LEFT_OUT = ("__pycache__", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")


class DatasetSection(Frozen):
    """`[dataset]`."""

    name: str
    version: str | None = None
    description: str = ""
    authors: Annotated[tuple[AuthorSection, ...], Strict(strict=False)] = ()
    keywords: Strings = ()


class ListedTask(Frozen):
    """One of `[[tasks]]`: the name that a `task.toml` gives itself, and what its folder held when it was listed."""

    name: str
    digest: str


class ListedFile(Frozen):
    """One of `[[files]]`: a file beside the manifest, such as a metric; without a digest until it is published."""

    path: str
    digest: str = ""


class ManifestToml(Frozen):
    """The whole document; names and defaults are Harbor's."""

    schema_version: str = "1.0"
    dataset: DatasetSection
    tasks: Annotated[tuple[ListedTask, ...], Strict(strict=False)] = ()
    files: Annotated[tuple[ListedFile, ...], Strict(strict=False)] = ()


class Manifest(NamedTuple):
    """A checked manifest: what it says, what it says that has no meaning, and what is worth saying about it."""

    file: str
    sections: ManifestToml
    unknown: FreeTable
    findings: tuple[Finding, ...]


def read_manifest(folder: str) -> Manifest:
    """The manifest of a folder that has one. Raises TaskFormatError as `load_task` does for a task's document.

    A file that it lists and that is not there, or not as it was, is a finding.
    """
    check = Checker(file=f"{folder}/{MANIFEST}", name=MANIFEST)
    sections = check.check(ManifestToml, parse_toml(read_text(check.file, boundary=folder), file=check.file))
    if sections.schema_version not in KNOWN_SCHEMAS:
        check.note("schema-version", f"unknown schema_version {sections.schema_version!r}", field="schema_version")
    _check_name(check, "dataset.name", sections.dataset.name)
    for number, row in enumerate(sections.tasks):
        _check_name(check, f"tasks.{number}.name", row.name)
        _check_digest(check, f"tasks.{number}.digest", row.digest)
    for number, file in enumerate(sections.files):
        _check_file(check, folder, f"files.{number}", file)
    return Manifest(check.file, sections, check.unknown, tuple(check.findings))


def _check_name(check: Checker, place: str, name: str) -> None:
    if not _NAME.fullmatch(name) or ".." in name:
        raise check.refuse(place, found=name, expected="organisation/name")


def _check_digest(check: Checker, place: str, digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise check.refuse(place, found=digest, expected="sha256: and 64 hex digits")


def _check_file(check: Checker, folder: str, place: str, file: ListedFile) -> None:
    if not file.path or "/" in file.path or "\\" in file.path or "\0" in file.path:
        raise check.refuse(f"{place}.path", found=file.path, expected="the name of a file beside the manifest")
    if file.digest:
        _check_digest(check, f"{place}.digest", file.digest)
    path = f"{folder}/{file.path}"
    if os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114 - paths are strings here
        check.note("missing-file", f"{file.path} is listed and not there", field=f"{place}.path")
        return
    with open(path, "rb") as content:  # noqa: PTH123 - likewise
        held = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
    if file.digest and file.digest != held:
        told = f"{file.path} is not as it was listed: {held}"
        check.note("changed-since-listed", told, field=f"{place}.digest", hint="harbor sync writes the new digest")


def harbor_digest(folder: str) -> str | None:
    """The digest that Harbor gives a task's folder; None where the folder's own .gitignore has a say in it.

    Raises TaskFormatError for links that leave the folder, as loading it does.
    """
    if os.path.lexists(f"{folder}/.gitignore"):
        return None
    state = hashlib.sha256()
    for path, held in _packed(folder):
        state.update(f"{path}\0{held}\n".encode())
    return f"sha256:{state.hexdigest()}"


def _packed(folder: str) -> list[tuple[str, str]]:
    """Path and sha256 of each file that Harbor packs, by path."""
    tree = scan(folder, boundary=folder)
    files = [file for file in tree if file.path in _PACKED_FILES or file.path.startswith(_PACKED_FOLDERS)]
    kept = [
        file
        for file in files
        if not any(fnmatchcase(part, pattern) for part in file.path.split("/") for pattern in _LEFT_OUT)
    ]
    return sorted((file.path, held) for file in kept if (held := _content_digest(file, folder)))


def _content_digest(file: TreeFile, folder: str) -> str:
    """As `TreeFile.sha256`, but a link counts as the file that it leads to; empty for a folder."""
    if file.kind != "link":
        return file.sha256()
    path = f"{folder}/{file.path}"
    if not os.path.isfile(path):  # noqa: PTH113 - paths are strings here
        return ""
    with open(path, "rb") as content:  # noqa: PTH123 - likewise
        return hashlib.file_digest(content, "sha256").hexdigest()


def missing_task(manifest: Manifest, number: int, *, here: tuple[str, ...]) -> TaskFormatError:
    """The error of a task that is listed and does not lie here."""
    row = manifest.sections.tasks[number]
    lies = f"{len(here)} others lie here, such as {here[0]}" if here else "no task lies here"
    return TaskFormatError(
        manifest.file,
        field=f"tasks.{number}.name",
        found=f"{row.name!r}, which no task beside the manifest is called ({row.digest})",
        expected="a task in a folder beside the manifest",
        hint=f"{lies}; tasks that only Harbor's registry holds are to be put there first",
    )


def changed_task(number: int, name: str, held: str | None) -> Finding:
    """The finding for a listed task whose digest is `held` now; None where it could not be taken."""
    place = f"tasks.{number}.digest"
    if held is None:
        told = f"{name} has a .gitignore, which decides what Harbor's digest covers: it was not checked"
        return Finding(rule="digest-not-checked", severity="info", file=MANIFEST, message=told, field=place)
    told = f"{name} is not as it was listed: its folder is {held} now"
    hint = "restore the folder, or let harbor sync write the new digest: scores of the two are not comparable"
    return Finding(rule="changed-since-listed", severity="warning", file=MANIFEST, message=told, field=place, hint=hint)
