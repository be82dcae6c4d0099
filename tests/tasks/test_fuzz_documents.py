"""Any values in the fields of a Terminal-Bench 1 task give a TaskError, or a Task that converts to the same one."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.folders import TASK_YAML, TERMINAL_BENCH_1, write_folder
from termarena.core.errors import TaskError
from termarena.tasks import load_task
from termarena.tasks.documents import parse_json
from termarena.tasks.terminal_bench_1 import TaskYaml
from termarena.tasks.write import write_harbor
from termarena.tasks.yaml_documents import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow
# JSON is YAML, and can also spell half a character.
SPELLINGS = st.sampled_from([json.dumps, yaml.safe_dump])
BOUNDED = settings(
    max_examples=200,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.text(alphabet=st.characters(), max_size=6),
    st.sampled_from(
        [*"\0\r\ud800\udfff\ufeff\x85\u2028", "a\r\nb", "'''\"\"\"\\", "# canary\n\ufeff# canary\nx", "${HOME}", "$$x"]
    ),
    st.sampled_from(["client", "main", "service:client", "client:ro", "client:c", ".", "${T_BENCH_TEST_DIR}", "a=b"]),
)
NUMBERS = st.one_of(
    st.integers(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.sampled_from([1 << 63, -(1 << 63), 10**400])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({*TaskYaml.model_fields, "environment", "metadata.termarena.id", "agent.network_mode", "version", ""})
SERVICE_FIELDS = """
build command container_name depends_on entrypoint environment extends image ipc links network_mode networks pid ports
volumes volumes_from working_dir
"""
PARTS = st.one_of(VALUES, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, TEXTS | st.none(), max_size=3), TEXTS)
SERVICES = st.dictionaries(st.sampled_from(SERVICE_FIELDS.split()), PARTS, max_size=5)


def _converts(folder: Path, files: Mapping[str, str | bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(folder / "t", files)
    try:
        task = load_task(folder / "t")
    except TaskError:
        return
    again = load_task(write_harbor(task, folder / "out"))
    assert again.digest == task.digest
    assert again.model_dump_json()


@given(fields=st.dictionaries(st.sampled_from(FIELDS) | TEXTS, VALUES, max_size=4), spelling=SPELLINGS)
@BOUNDED
def test_any_values_in_task_yaml(tmp_path: Path, fields: dict[str, Any], spelling: Callable[[object], str]) -> None:
    document = {**yaml.safe_load(TASK_YAML), **fields}
    _converts(tmp_path, {**TERMINAL_BENCH_1, "task.yaml": spelling(document)})


@given(
    client=SERVICES,
    others=st.dictionaries(st.sampled_from(["db", "main", "side"]) | TEXTS, SERVICES | VALUES, max_size=2),
    rest=st.dictionaries(st.sampled_from(["volumes", "networks", "x-y", "version", "name"]), PARTS, max_size=2),
    named=st.sampled_from([{}, {"container_name": "${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}"}]),
    spelling=SPELLINGS,
)
@BOUNDED
def test_any_values_in_compose_services(
    tmp_path: Path, spelling: Callable[[object], str], **drawn: dict[str, Any]
) -> None:
    client = {"build": ".", **drawn["client"], **drawn["named"]}
    document = {**drawn["rest"], "services": {**drawn["others"], "client": client}}
    _converts(tmp_path, {**TERMINAL_BENCH_1, "docker-compose.yaml": spelling(document)})


@given(value=VALUES)
@BOUNDED
def test_whatever_is_parsed_can_be_written_again(value: object) -> None:
    text = json.dumps(value)
    for parse in (parse_json, parse_yaml):
        try:
            parsed = parse(text, file="x")
        except TaskError:
            continue
        assert json.dumps(parsed, ensure_ascii=False).encode()
