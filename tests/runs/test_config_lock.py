"""What a run measures, locked: tasks, versions, machine, and a command line without secrets."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest

from support.fake_trials import FACTS, make_tasks
from termarena import __version__
from termarena.core.errors import NotFound, TaskFormatError
from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import lock_of, read_config_lock, scrubbed, write_config_lock
from termarena.runs.plan import RunOptions, TrialKey

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lock_comes_back_as_it_was_written(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", 2)
    lock = lock_of(RunOptions(attempts=2, agent="nop"), tasks, FACTS)
    write_config_lock(RunFolder(tmp_path), lock)
    assert read_config_lock(RunFolder(tmp_path)) == lock
    assert (lock.versions.termarena, lock.versions.python) == (__version__, platform.python_version())
    assert [(task.id, task.digest, task.format) for task in lock.tasks] == [(t.id, t.digest, "harbor") for t in tasks]
    assert list(lock.trial_keys())[:3] == [TrialKey("task-000", 1), TrialKey("task-001", 1), TrialKey("task-000", 2)]
    assert lock.trials == 4


def test_the_dataset_s_digest_is_of_its_tasks_whatever_their_order(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", 3)
    same = lock_of(RunOptions(), tasks[::-1], FACTS)
    fewer = lock_of(RunOptions(), tasks[:2], FACTS)
    assert lock_of(RunOptions(), tasks, FACTS).dataset == same.dataset
    assert fewer.dataset.digest != same.dataset.digest


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no run"):
        read_config_lock(RunFolder(tmp_path))


def test_a_lock_that_does_not_hold_one_names_the_field(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_config_lock(folder, lock_of(RunOptions(), make_tasks(tmp_path / "tasks", 1), FACTS))
    folder.config_lock.write_text(folder.config_lock.read_text().replace('"attempts": 1', '"attempts": 0'))
    with pytest.raises(TaskFormatError, match=r"options\.attempts"):
        read_config_lock(folder)


ENVIRONMENT = {"OPENAI_API_KEY": "sk-0123456789", "SHORT_TOKEN": "abc", "HOME": "/home/somebody"}


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--agent-env=API_KEY=abc=def", "--agent-env=API_KEY=***"),
        ("MY_TOKEN=x", "MY_TOKEN=***"),
        ("--password=a b", "--password=***"),
        ("x-sk-0123456789-y", "x-[secret OPENAI_API_KEY]-y"),
        ("https://me:pass@host/dataset", "https://***@host/dataset"),
        ("/home/somebody/tasks", "/home/somebody/tasks"),
        ("abc", "abc"),
        ("--timeout-multiplier=2", "--timeout-multiplier=2"),
    ],
)
def test_secrets_are_scrubbed_from_the_command(word: str, shown: str) -> None:
    assert scrubbed(["termarena", "run", word], ENVIRONMENT) == ("termarena", "run", shown)


def test_the_value_after_a_secret_option_is_scrubbed() -> None:
    assert scrubbed(["--api-key", "v", "--agent", "nop"], {}) == ("--api-key", "***", "--agent", "nop")
    assert scrubbed(["--use-keys", "--agent", "nop"], {}) == ("--use-keys", "--agent", "nop")
