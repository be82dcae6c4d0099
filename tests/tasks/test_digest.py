from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, TASK_TOML, harbor, write_folder
from termarena.tasks import load_task, scored_view

if TYPE_CHECKING:
    from pathlib import Path

MOVES_A_SCORE = {
    "environment/__pycache__/lost.cpython-311.pyc": "bytecode without a source",
    "environment/repository/.git/HEAD": "ref: refs/heads/main\n",
    "instruction.md": "Write 2 to /app/one.txt.\n",
    "environment/Dockerfile": "FROM debian:trixie-slim\n",
    "environment/extra.txt": "new\n",
    "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
    "tests/data/new.txt": "",
    "trajectory.json": "{}",
    "task.toml": TASK_TOML.replace("60.0", "61.0"),
}
MOVES_NOTHING = {
    "solution/solve.sh": "#!/bin/sh\ntrue\n",
    "README.md": "Words.\n",
    "cheats/a.sh": "#!/bin/sh\n",
    "tests/.DS_Store": "left by a tool",
    ".git/HEAD": "ref: refs/heads/main\n",
    "task.toml": TASK_TOML.replace('"scripting"', '"other"') + "build_timeout_sec = 5.0\n",
}


@pytest.mark.parametrize("name", MOVES_A_SCORE)
def test_the_digest_changes_with_what_can_move_a_score(tmp_path: Path, name: str) -> None:
    before = load_task(harbor(tmp_path / "a")).digest
    after = load_task(write_folder(tmp_path / "b", {**HARBOR, name: MOVES_A_SCORE[name]})).digest
    assert before != after


@pytest.mark.parametrize("name", MOVES_NOTHING)
def test_the_digest_does_not_change_with_anything_else(tmp_path: Path, name: str) -> None:
    before = load_task(harbor(tmp_path / "a")).digest
    after = load_task(write_folder(tmp_path / "b", {**HARBOR, name: MOVES_NOTHING[name]})).digest
    assert before == after


def test_spelling_a_default_out_changes_nothing(tmp_path: Path) -> None:
    spelled = TASK_TOML + 'network_mode = "public"\nos = "linux"\ngpus = 0\n[verifier]\ntimeout_sec = 600.0\n'
    assert load_task(harbor(tmp_path / "a")).digest == load_task(harbor(tmp_path / "b", task_toml=spelled)).digest


def test_the_executable_bit_counts_and_other_bits_do_not(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t")
    before = load_task(folder).digest
    (folder / "tests" / "test.sh").chmod(0o700)
    assert load_task(folder).digest == before
    (folder / "tests" / "test.sh").chmod(0o644)
    assert load_task(folder).digest != before


def test_the_digest_is_a_promise(tmp_path: Path) -> None:
    """A change here makes every recorded score incomparable: raise DIGEST_VERSION and say so in the changelog."""
    task = load_task(harbor(tmp_path / "t"))
    assert list(scored_view(task)) == ["instruction", "environment", "agent", "tests"]
    assert task.digest == "ta1:70f22b4cdeb0fe726aa3064f1441ff8facedba27493db2a792bf6cb79c7503eb"


def test_bytecode_beside_its_source_is_no_content(tmp_path: Path) -> None:
    files = {**HARBOR, "tests/helper.py": "", "tests/sub/other.py": ""}
    before = load_task(write_folder(tmp_path / "a", files)).digest
    compiled = {
        "tests/__pycache__/helper.cpython-312.pyc": "x",
        "tests/sub/__pycache__/other.cpython-312.opt-1.pyc": "x",
    }
    assert load_task(write_folder(tmp_path / "b", {**files, **compiled})).digest == before
