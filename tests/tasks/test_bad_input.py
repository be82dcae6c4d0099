"""Whatever a folder holds, loading gives a Task or a TaskFormatError that names file, field, found and expected."""

from __future__ import annotations

import json
import os
import resource
import socket
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, SIMPLE, TASK_TOML, TERMINAL_BENCH_1, harbor, simple, terminal_bench_1, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

TOML_CASES = [
    ("[agent\n", None, "TOML that does not parse", "valid TOML"),
    ('[agent]\ntimeout_sec = "soon"\n', "agent.timeout_sec", "'soon'", "a number"),
    ("[agent]\ntimeout_sec = -1\n", "agent.timeout_sec", "-1", "a number above 0"),
    ("[agent]\ntimeout_sec = 0\n", "agent.timeout_sec", "0", "a number above 0"),
    ("[agent]\ntimeout_sec = nan\n", "agent.timeout_sec", "nan", "a finite number"),
    ("[verifier]\ntimeout_sec = inf\n", "verifier.timeout_sec", "inf", "a finite number"),
    ("[environment]\ncpus = 1.5\n", "environment.cpus", "1.5", "a whole number"),
    ("[environment]\ncpus = true\n", "environment.cpus", "True", "a whole number"),
    ("[environment]\nmemory_mb = -5\n", "environment.memory_mb", "-5", "a number above 0"),
    ('[environment]\nmemory = "lots"\n', "environment.memory", "'lots'", 'a size such as "2G"'),
    ('[environment]\nmemory = "1G"\nmemory_mb = 5\n', "environment.memory", "'1G'", "no other one beside it"),
    ('[environment]\nos = "plan9"\n', "environment.os", "'plan9'", "linux or windows"),
    ('[environment]\nnetwork_mode = "most"\n', "environment.network_mode", "'most'", "one of 'public'"),
    ('[environment]\nallowed_hosts = ["a.org"]\n', "environment.allowed_hosts", "['a.org']", "no hosts unless"),
    (
        '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["https://a.org/x"]\n',
        "environment.allowed_hosts",
        "'https://a.org/x'",
        "without scheme or port",
    ),
    ("environment = 3\n", "environment", "3", "a table"),
    ('artifacts = ["../up"]\n', "artifacts", "'../up'", "without `..`"),
    ("[[steps]]\nx = 1\n", "steps.0.name", "nothing", "it is required"),
    ('[[steps]]\nname = "a/b"\n', "steps.0.name", "'a/b'", "a folder's"),
    ('[[environment.mcp_servers]]\nname = "m"\n', "environment.mcp_servers", "'m'", "a url"),
    (
        '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n',
        "verifier.environment_mode",
        "shared",
        "separate",
    ),
    ('[metadata.termarena]\nrequires = "sh"\n', "metadata.termarena.requires", "'sh'", "a list"),
    ('[metadata.termarena]\nsetup = "no.sh"\n', "metadata.termarena.setup", "'no.sh'", "a file in environment/"),
    ("[metadata]\ntermarena = 5\n", "metadata.termarena", "5", "a table"),
    ('[task]\nname = "lonely"\n', "task.name", "'lonely'", "organisation/name"),
    ("[environment.env]\nMY_VAR = 5\n", "environment.env.MY_VAR", "5", "text"),
    ("schema_version = 1.4\n", "schema_version", "1.4", "text"),
    ("x = " + "[" * 5000, None, "TOML that does not parse", "valid TOML"),
]


@pytest.mark.parametrize(("document", "field", "found", "expected"), TOML_CASES)
def test_a_wrong_task_toml_is_refused_by_field(
    tmp_path: Path, document: str, field: str | None, found: str, expected: str
) -> None:
    with pytest.raises(TaskFormatError) as caught:
        load_task(harbor(tmp_path / "t", task_toml=document))
    error = caught.value
    assert error.file == f"{tmp_path}/t/task.toml"
    assert error.field == field
    assert found in error.found
    assert expected in error.expected


YAML_CASES = [
    ("instruction: [\n", "YAML that does not parse"),
    ("instruction: x\ndifficulty: impossible\n", "'impossible'"),
    ("instruction: x\n", "nothing"),
    ("difficulty: easy\n", "None"),
    ("- a\n- b\n", "['a', 'b']"),
    ("", "None"),
    (BOMB, "aliases that expand"),
    ("instruction: !!python/object/apply:os.system [id]\ndifficulty: easy\n", "the YAML tag"),
    ("instruction: !custom x\ndifficulty: easy\n", "the YAML tag !custom on line 1"),
    ("a: &a [*a]\n", "nested too deeply"),
    ("[" * 3000 + "]" * 3000, "nested too deeply"),
    ("instruction: x\ninstruction: y\ndifficulty: easy\n", "stands twice"),
    ("instruction: x\ndifficulty: easy\nmax_agent_timeout_sec: .nan\n", "nan"),
    ("instruction: x\ndifficulty: easy\nmax_agent_timeout_sec: -2\n", "-2"),
    ("? [a, b]\n: x\n", "YAML that does not parse"),
    ("a: 1\n--- \nb: 2\n", "YAML that does not parse"),
    ("x: " + "9" * 5000, "YAML that does not parse"),
]


@pytest.mark.parametrize(("document", "found"), YAML_CASES)
def test_a_wrong_task_yaml_is_refused(tmp_path: Path, document: str, found: str) -> None:
    with pytest.raises(TaskFormatError) as caught:
        load_task(terminal_bench_1(tmp_path / "t", task_yaml=document))
    assert caught.value.file == f"{tmp_path}/t/task.yaml"
    assert found in caught.value.found


JSON_CASES = [
    ('{"task_id": ', "JSON that does not parse"),
    ("[]", "[]"),
    ('{"timeout_seconds": NaN}', "NaN is not a JSON number"),
    ('{"timeout_seconds": -1}', "-1"),
    ('{"task_id": "a", "task_id": "b"}', "stands twice"),
    ('{"required_tools": "bash"}', "'bash'"),
    ("[" * 100_000, "nested too deeply"),
    ('{"timeout_seconds": ' + "9" * 5000 + "}", "JSON that does not parse"),
]


@pytest.mark.parametrize(("document", "found"), JSON_CASES)
def test_a_wrong_metadata_json_is_refused(tmp_path: Path, document: str, found: str) -> None:
    with pytest.raises(TaskFormatError) as caught:
        load_task(simple(tmp_path / "t", metadata_json=document))
    assert caught.value.file == f"{tmp_path}/t/metadata.json"
    assert found in caught.value.found


@pytest.mark.parametrize(
    ("files", "name", "missing"),
    [
        (HARBOR, "instruction.md", "instruction.md"),
        (HARBOR, "tests/test.sh", "tests/test.sh"),
        (HARBOR, "environment/Dockerfile", "environment"),
        (TERMINAL_BENCH_1, "run-tests.sh", "run-tests.sh"),
        (TERMINAL_BENCH_1, "Dockerfile", "Dockerfile"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, files: dict[str, str], name: str, missing: str) -> None:
    folder = write_folder(tmp_path / "t", {other: text for other, text in files.items() if other != name})
    with pytest.raises(TaskFormatError) as caught:
        load_task(folder)
    assert caught.value.file == f"{folder}/{missing}"
    assert "no " in caught.value.found


@pytest.mark.parametrize("name", ["instruction.txt", "test.sh"])
def test_a_missing_script_of_the_simple_layout_is_named(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "t", {other: text for other, text in SIMPLE.items() if other != name})
    with pytest.raises(TaskFormatError, match=f"here or in {name}"):
        load_task(folder)


def test_text_that_is_not_utf_8_is_refused_with_its_offset(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match=r"instruction\.md: found byte 0xff at offset 3; expected UTF-8"):
        load_task(harbor(tmp_path / "t", instruction_md=b"abc\xff"))


def test_an_empty_instruction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="what the agent is asked to do"):
        load_task(harbor(tmp_path / "t", instruction_md="<!-- canary -->\n \n"))


def test_a_folder_without_a_task_says_where_tasks_are(tmp_path: Path) -> None:
    harbor(tmp_path / "one")
    with pytest.raises(TaskFormatError) as caught:
        load_task(tmp_path)
    assert caught.value.hint == "1 tasks lie below it, such as one"
    with pytest.raises(TaskFormatError, match="no such folder"):
        load_task(tmp_path / "nowhere")


@pytest.mark.parametrize("place", ["environment/x", "tests/deep/down/x", "solution/x", "cheats/x"])
@pytest.mark.parametrize(
    ("target", "found"),
    [("/etc/passwd", "leaves the task"), ("../" * 6 + "outside", "leaves the task"), ("x", "in a circle")],
)
def test_links_that_leave_or_circle_are_refused(tmp_path: Path, place: str, target: str, found: str) -> None:
    folder = harbor(tmp_path / "t")
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).symlink_to(target)
    with pytest.raises(TaskFormatError) as caught:
        load_task(folder)
    assert caught.value.file == f"{folder}/{place}"
    assert found in caught.value.found


@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
def test_a_document_may_not_be_a_link_to_the_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text(TASK_TOML)
    folder = harbor(tmp_path / "t")
    (folder / name).unlink()
    (folder / name).symlink_to("../secret")
    with pytest.raises(TaskFormatError, match="a link that leaves the task"):
        load_task(folder)


def test_links_inside_a_tree_stay_links_and_links_across_become_files(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t")
    (folder / "tests" / "same.sh").symlink_to("test.sh")
    (folder / "tests" / "data").symlink_to("../environment/Dockerfile")
    (folder / "tests" / "dangling").symlink_to("nothing")
    task = load_task(folder)
    assert task.tests is not None
    kinds = {file.path: file.kind for file in task.tests.files}
    assert kinds == {"dangling": "link", "data": "file", "same.sh": "link", "test.sh": "file"}


def test_special_files_are_refused_without_being_opened(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t")
    os.mkfifo(folder / "environment" / "pipe")
    with pytest.raises(TaskFormatError, match="a named pipe"):
        load_task(folder)
    (folder / "instruction.md").unlink()
    (folder / "environment" / "pipe").rename(folder / "instruction.md")
    with pytest.raises(TaskFormatError, match="a special file"):
        load_task(folder)


def test_a_huge_document_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t")
    with (folder / "task.toml").open("r+b") as file:
        file.truncate(100 << 20)
    with pytest.raises(TaskFormatError, match="found 104857600 bytes"):
        load_task(folder)


def test_a_huge_file_costs_no_memory(tmp_path: Path) -> None:
    load_task(harbor(tmp_path / "first")).digest  # noqa: B018 - what is built once per process is not its cost
    folder = harbor(tmp_path / "t")
    with (folder / "tests" / "weights.bin").open("wb") as file:
        file.truncate(100 << 20)
    tracemalloc.start()
    try:
        assert load_task(folder).digest.startswith("ta1:")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = harbor(tmp_path / "t")
    (folder / "instruction.md").unlink()
    monkeypatch.chdir(folder)  # a socket's address is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("instruction.md")
        with pytest.raises(TaskFormatError, match=r"instruction\.md: found a file that cannot be read"):
            load_task(folder)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t", task_toml="[agent\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        for _ in range(200):
            with pytest.raises(TaskFormatError, match="TOML"):
                load_task(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("place", ["environment", "tests", "solution", "steps/one", "steps/one/tests"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, place: str) -> None:
    document = '[[steps]]\nname = "one"\n' if place.startswith("steps") else TASK_TOML
    folder = harbor(tmp_path / "t", task_toml=document)
    write_folder(folder, {"steps/one/instruction.md": "x\n", "steps/one/tests/test.sh": "x\n"})
    (folder / place).rename(tmp_path / "elsewhere")
    (folder / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TaskFormatError) as caught:
        load_task(folder)
    assert (caught.value.file, caught.value.found) == (f"{folder}/{place}", "a link to a folder")


@pytest.mark.parametrize("name", ["tests/test.sh", "environment/Dockerfile"])
def test_a_folder_in_the_place_of_a_file_is_no_file(tmp_path: Path, name: str) -> None:
    folder = harbor(tmp_path / "t")
    (folder / name).unlink()
    write_folder(folder, {f"{name}/inside": "x"})
    with pytest.raises(TaskFormatError, match="no "):
        load_task(folder)


@pytest.mark.parametrize(
    "state", [{"a": "1", "/workspace/a": "2"}, {"a": "1", "a/b": "2"}, {"x" * 300: "1"}, {"d/": "1"}]
)
def test_a_start_state_that_cannot_be_laid_down_is_refused(tmp_path: Path, state: dict[str, str]) -> None:
    table = {"instruction": "Do.", "test_script": "true", "initial_state": state}
    with pytest.raises(TaskFormatError, match=r"metadata\.json: initial_state\."):
        load_task(write_folder(tmp_path / "t", {"metadata.json": json.dumps(table)}))
