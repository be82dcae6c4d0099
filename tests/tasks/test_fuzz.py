"""Any bytes in any file give a Task or a TaskError, nothing else."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.folders import HARBOR, SIMPLE, TERMINAL_BENCH_1, write_folder
from tasks.test_harbor import EVERYTHING
from termarena.core.errors import TaskError
from termarena.tasks import load_dataset, load_task
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow
BOUNDED = settings(
    max_examples=150,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

FORMATS = {
    "harbor": (HARBOR | {"task.toml": EVERYTHING}, ["task.toml", "instruction.md"]),
    "terminal-bench-1": (
        {name: text for name, text in TERMINAL_BENCH_1.items() if name != "solution.sh"}
        | {"solution.yaml": "- command: ls\n"},
        ["task.yaml", "docker-compose.yaml", "solution.yaml", "Dockerfile"],
    ),
    "simple": (SIMPLE, ["metadata.json", "instruction.txt", "test.sh"]),
}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=10), below, max_size=4),
    max_leaves=12,
)


def _load(folder: Path, files: Mapping[str, str | bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(folder, files)
    try:
        task = load_task(folder)
    except TaskError:
        return
    assert task.digest.startswith("ta1:")
    assert task.model_dump_json()


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.data())
@BOUNDED
def test_any_bytes(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    files, names = FORMATS[kind]
    name = data.draw(st.sampled_from(names))
    _load(tmp_path / "t", {**files, name: data.draw(st.binary(max_size=200))})


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.data())
@BOUNDED
def test_bytes_changed_in_a_good_file(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    files, names = FORMATS[kind]
    name = data.draw(st.sampled_from(names))
    good = str(files[name]).encode()
    at = data.draw(st.integers(0, len(good)))
    gone = data.draw(st.integers(0, 20))
    _load(tmp_path / "t", {**files, name: good[:at] + data.draw(st.binary(max_size=12)) + good[at + gone :]})


@given(fields=st.dictionaries(st.sampled_from([*json.loads(SIMPLE["metadata.json"]), "initial_state", "id"]), VALUES))
@BOUNDED
def test_any_values_in_the_simple_layout(tmp_path: Path, fields: dict[str, Any]) -> None:
    _load(tmp_path / "t", {**SIMPLE, "metadata.json": json.dumps(fields)})


@given(entries=st.lists(VALUES, max_size=4) | VALUES)
@BOUNDED
def test_any_collection(tmp_path: Path, entries: object) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(entries))
    try:
        dataset = load_dataset(tmp_path)
    except TaskError:
        return
    assert len(dataset) + len(dataset.broken) > 0


@given(text=st.text(alphabet="abc: -[]{}&*!?|>'\"\n\t#%@`1.", max_size=80))
@BOUNDED
def test_any_yaml(text: str) -> None:
    try:
        value = parse_yaml(text, file="x.yaml")
    except TaskError:
        return
    assert value is None or isinstance(value, (str, int, float, list, dict))
