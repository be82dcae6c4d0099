"""Recordings from files, folders and checkouts, with address, commit and licence."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.sessions import SORTING
from termarena.forge.draft import synthesize
from termarena.forge.ledger import Ledger
from termarena.forge.reading import read
from termarena.forge.retrieving import Retrieved, Shelf
from termarena.forge.retrieving.checkouts import checkout_of
from termarena.forge.retrieving.licences import licence_of
from termarena.forge.retrieving.local import retrieve_from_here
from termarena.forge.taskfiles import write_environment

if TYPE_CHECKING:
    from pathlib import Path

CAST = b'{"version": 2, "width": 80, "height": 24, "title": "Sort"}\n[0.1, "o", "$ sort a > b\\r\\n"]\n'
MIT = "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of this software\n"


def retrieve(path: Path, folder: Path, licence: str | None = None) -> Retrieved:
    with Ledger(folder / "forge") as ledger:
        return retrieve_from_here(path, folder / "forge" / "recordings", licence, ledger, lambda *_: None)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "demos").mkdir(parents=True)
    (folder / "demos" / "one two.cast").write_bytes(CAST)
    (folder / "LICENSE.md").write_text(MIT)
    commands = (
        ("init", "-q", "-b", "main"),
        ("remote", "add", "origin", "https://bob:token@github.com/bob/project.git"),
        ("add", "."),
        ("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"),
    )
    for command in commands:
        subprocess.run(["git", *command], cwd=folder, check=True)  # noqa: S603, S607 - whichever git there is
    return folder


@pytest.mark.needs("git")
def test_a_checkout_tells_address_commit_and_licence_and_no_login(checkout: Path, tmp_path: Path) -> None:
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    done = retrieve(checkout, tmp_path)
    assert (done.fetched, done.problems) == (1, [])
    shelf = Shelf(tmp_path / "forge" / "recordings" / "github.com-bob-project")
    (name,) = shelf.names()
    origin = shelf.get(name)
    assert origin is not None
    assert origin.address == f"https://github.com/bob/project/blob/{commit}/demos/one%20two.cast"
    assert (origin.licence, origin.title) == ("MIT", "Sort")
    transcript = read(shelf.folder / name / "recording.cast")
    assert (transcript.source, transcript.licence) == (origin.address, "MIT")
    assert retrieve(checkout, tmp_path).known == 1
    subprocess.run(["git", "pack-refs", "--all"], cwd=checkout, check=True)  # noqa: S607
    found = checkout_of(checkout / "demos")
    assert found is not None
    assert found.commit == commit


def test_a_task_names_the_address_and_the_licence_of_its_recording(tmp_path: Path) -> None:
    named = {"source": "https://casts.example/a/1", "licence": "CC-BY-4.0"}
    write_environment(synthesize(SORTING.model_copy(update=named)), tmp_path)
    document = tomllib.loads((tmp_path / "task.toml").read_text())
    assert (document["source"], document["metadata"]["license"]) == tuple(named.values())


def test_a_typescript_keeps_its_timing_and_a_licence_can_be_said(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "typescript").write_bytes(b'Script started on 2026-01-01 [COLUMNS="80" LINES="24"]\n$ ls\r\na\r\n')
    (folder / "typescript.timing").write_text("0.5 6\n0.5 3\n")
    (folder / "broken.cast").write_bytes(b"")
    done = retrieve(folder, tmp_path, "own")
    assert (done.fetched, done.failed) == (1, 1)
    assert "it is empty" in done.problems[0]
    shelf = Shelf(tmp_path / "forge" / "recordings" / "local")
    (name,) = shelf.names()
    transcript = read(shelf.folder / name / "recording.typescript")
    assert (transcript.source, transcript.licence, transcript.duration_s) == ("typescript", "own", 1.0)


def test_the_shelf_is_no_source_of_itself_and_what_was_taken_down_stays_away(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.cast").write_bytes(CAST)
    retrieve(folder, tmp_path)
    assert retrieve(tmp_path, tmp_path).known == 1
    with Ledger(tmp_path / "forge") as ledger:
        ledger.block(read(folder / "a.cast").digest, "a.cast")
    assert retrieve(folder, tmp_path).blocked == 1
    assert list(Shelf(tmp_path / "forge" / "recordings" / "local").names()) == []


@pytest.mark.needs("git")
def test_a_name_that_is_no_text_is_taken_all_the_same(checkout: Path, tmp_path: Path) -> None:
    for folder in (checkout / "demos", tmp_path / "plain"):
        folder.mkdir(exist_ok=True)
        (folder / os.fsdecode(b"odd\xff.cast")).write_bytes(CAST.replace(b"Sort", b"\\ud800"))
        assert retrieve(folder, tmp_path).fetched > 0
    shelves = [Shelf(tmp_path / "forge" / "recordings" / name) for name in ("github.com-bob-project", "local")]
    found = {origin.address for shelf in shelves for name in shelf.names() if (origin := shelf.get(name))}
    assert "odd?.cast" in found
    assert any(address.endswith("/demos/odd%FF.cast") for address in found)


def test_a_licence_that_is_said_later_counts(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_bytes(CAST)
    assert retrieve(tmp_path / "a.cast", tmp_path).fetched == 1
    assert retrieve(tmp_path / "a.cast", tmp_path, "CC-BY-4.0").fetched == 1
    for licence in ("CC-BY-4.0", None):
        assert retrieve(tmp_path / "a.cast", tmp_path, licence).known == 1
    shelf = Shelf(tmp_path / "forge" / "recordings" / "local")
    (name,) = shelf.names()
    origin = shelf.get(name)
    assert origin is not None
    assert origin.licence == "CC-BY-4.0"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MIT, "MIT"),
        ("Apache License\n   Version 2.0, January 2004", "Apache-2.0"),
        ("GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3", "AGPL-3.0"),
        ("All rights reserved", None),
        ("All rights reserved. " + "Not for you. " * 300 + "Parts of it are of others: " + MIT, None),
    ],
)
def test_licence_files_are_known_by_their_words(text: str, name: str | None, tmp_path: Path) -> None:
    (tmp_path / "COPYING").write_text(text)
    assert licence_of(tmp_path) == name
    (tmp_path / "LICENSE-APACHE").write_text("CC0 1.0 Universal")
    assert licence_of(tmp_path) is None


def test_the_command_tells_what_it_did_and_what_comes_next(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_bytes(CAST)
    done = termarena("forge", "retrieve", "a.cast", "--licence", "own", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fetched"] == 1
    assert "next: termarena forge run forge/recordings --forge forge" not in done.stdout
    wrong = termarena("forge", "retrieve", "http://127.0.0.1:9", "--feed", "newest", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "there is: public, recent, featured, popular" in wrong.stderr
    private = termarena("forge", "retrieve", "http://10.1.2.3", cwd=tmp_path)
    assert private.returncode == 2
    assert "--allow-network 10.1.2.3/32" in private.stderr
