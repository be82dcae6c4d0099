from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor
from termarena.core.errors import LooseTask, NotFound, TaskFormatError
from termarena.tasks import load_dataset
from termarena.tasks.manifest import harbor_digest

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "sha256:" + "0" * 64


def listed(folder: Path, *names: str, extra: str = "") -> Path:
    """A dataset of Harbor's: tasks `acme/<name>` in folders of other names, all of them listed with their digests."""
    rows = []
    for name in names:
        task = harbor(folder / f"folder-of-{name}", task_toml=f'[task]\nname = "acme/{name}"\n')
        rows.append(f'[[tasks]]\nname = "acme/{name}"\ndigest = "{harbor_digest(str(task))}"\n')
    (folder / "dataset.toml").write_text('[dataset]\nname = "acme/set"\n' + "".join(rows) + extra)
    return folder


def test_a_manifest_says_which_tasks_are_loaded(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one", "two")
    harbor(folder / "stray", task_toml='[task]\nname = "acme/stray"\n')
    harbor(folder / "wreck", task_toml="[agent\n")
    dataset = load_dataset(folder)
    assert [task.id for task in dataset] == ["acme/one", "acme/two"]
    assert dataset.manifest is not None
    assert dataset.manifest.sections.dataset.name == "acme/set"
    assert (dataset.broken, dataset.findings) == ((), ())
    assert dataset.others == (f"{folder}/stray", f"{folder}/wreck")


def test_a_task_without_a_name_of_its_own_is_found_by_its_folder(tmp_path: Path) -> None:
    task = harbor(tmp_path / "set" / "plain")
    row = f'[[tasks]]\nname = "acme/plain"\ndigest = "{harbor_digest(str(task))}"\n'
    (tmp_path / "set" / "dataset.toml").write_text(f'[dataset]\nname = "acme/set"\n{row}')
    assert [task.id for task in load_dataset(tmp_path / "set")] == ["plain"]


def test_a_listed_task_that_is_not_there_is_told(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one", extra=f'[[tasks]]\nname = "acme/gone"\ndigest = "{OTHER}"\n')
    dataset = load_dataset(folder)
    assert [task.id for task in dataset] == ["acme/one"]
    (broken,) = dataset.broken
    assert isinstance(broken.error, TaskFormatError)
    assert (broken.error.file, broken.error.field) == (f"{folder}/dataset.toml", "tasks.1.name")
    assert "'acme/gone'" in broken.error.found
    with pytest.raises(TaskFormatError, match="acme/gone"):
        dataset.whole()


def test_a_folder_that_does_not_load_may_be_the_one_that_is_missing(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one", extra=f'[[tasks]]\nname = "acme/wreck"\ndigest = "{OTHER}"\n')
    harbor(folder / "wreck", task_toml="[agent\n")
    (broken,) = load_dataset(folder).broken
    assert broken.path == f"{folder}/wreck"


def test_a_task_that_changed_since_it_was_listed_is_told(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one", "two")
    (folder / "folder-of-two" / "tests" / "test.sh").write_text("#!/bin/sh\n")
    dataset = load_dataset(folder)
    assert [task.id for task in dataset] == ["acme/one", "acme/two"]
    (finding,) = dataset.findings
    assert (finding.rule, finding.severity, finding.field) == ("changed-since-listed", "warning", "tasks.1.digest")
    with pytest.raises(LooseTask, match="acme/two is not as it was listed") as caught:
        load_dataset(folder, strict=True)
    assert caught.value.file == f"{folder}/dataset.toml"


def test_a_folder_with_a_gitignore_is_not_checked_and_that_is_told(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one")
    (folder / "folder-of-one" / ".gitignore").write_text("*.log\n")
    (finding,) = load_dataset(folder, strict=True).findings
    assert (finding.rule, finding.severity) == ("digest-not-checked", "info")


def test_unknown_fields_of_a_manifest_are_kept_and_reported(tmp_path: Path) -> None:
    folder = listed(tmp_path / "set", "one", extra="[[files]]\npath = 'metric.py'\nweigth = 2\n")
    (folder / "metric.py").write_text("")
    dataset = load_dataset(folder)
    assert dataset.manifest is not None
    assert dataset.manifest.unknown == {"files.0.weigth": 2}
    assert [(one.rule, one.field) for one in dataset.findings] == [("unknown-field", "files.0.weigth")]


def test_files_of_a_manifest_are_checked(tmp_path: Path) -> None:
    held = hashlib.sha256(b"x").hexdigest()
    rows = "".join(
        f"[[files]]\npath = '{name}'\ndigest = '{digest}'\n"
        for name, digest in (("good", f"sha256:{held}"), ("changed", OTHER), ("gone", ""))
    )
    folder = listed(tmp_path / "set", "one", extra=rows)
    for name in ("good", "changed"):
        (folder / name).write_bytes(b"x")
    assert [(one.rule, one.field) for one in load_dataset(folder).findings] == [
        ("changed-since-listed", "files.1.digest"),
        ("missing-file", "files.2.path"),
    ]


def test_a_manifest_without_tasks_is_no_dataset(tmp_path: Path) -> None:
    harbor(tmp_path / "one")
    (tmp_path / "dataset.toml").write_text('[dataset]\nname = "acme/set"\n')
    with pytest.raises(NotFound, match="lists no task"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[dataset]\nname = 'nobody'\n", "dataset.name"),
        ("[dataset]\nname = 'a/b'\n[[tasks]]\nname = 'a/c'\n", "tasks.0.digest"),
        ("[dataset]\nname = 'a/b'\n[[tasks]]\nname = 'a/c'\ndigest = 'sha256:1'\n", "tasks.0.digest"),
        (f"[dataset]\nname = 'a/b'\n[[tasks]]\nname = '../c'\ndigest = '{OTHER}'\n", "tasks.0.name"),
        ("[dataset]\nname = 'a/b'\n[[files]]\npath = '../x'\n", "files.0.path"),
        ("[[tasks]]\n", "dataset"),
        ("[dataset\n", None),
    ],
)
def test_a_bad_manifest_names_its_field(tmp_path: Path, text: str, field: str | None) -> None:
    harbor(tmp_path / "one")
    (tmp_path / "dataset.toml").write_text(text)
    with pytest.raises(TaskFormatError) as caught:
        load_dataset(tmp_path)
    assert (caught.value.file, caught.value.field) == (f"{tmp_path}/dataset.toml", field)


def test_the_digest_is_the_one_that_harbor_gives(tmp_path: Path) -> None:
    """By the letter of its rule: path, NUL, sha256, newline, for each packed file, by path."""
    folder = harbor(tmp_path / "one")
    (folder / "notes.txt").write_text("is not packed")
    (folder / "tests" / "old.pyc").write_text("is left out")
    names = ["environment/Dockerfile", "instruction.md", "solution/solve.sh", "task.toml", "tests/test.sh"]
    packed = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert sorted({*names, "notes.txt", "tests/old.pyc"}) == packed
    rows = "".join(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names)
    assert harbor_digest(str(folder)) == f"sha256:{hashlib.sha256(rows.encode()).hexdigest()}"
