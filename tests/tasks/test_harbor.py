from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, TASK_TOML, harbor, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_task, needs_of
from termarena.tasks.model import AgentPhase, Artifact, BareRecipe, Collect, Healthcheck, McpServer, NetworkPolicy

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """\
schema_version = "1.4"
source = "recording 42"
artifacts = ["/app/out.txt", { source = "/var/lib/db", destination = "db", exclude = ["*.log"], service = "db" }]

[task]
name = "acme/everything"
version = "2.1"
description = "Uses every field."
authors = [{ name = "Ada", email = "ada@example.org" }, { name = "Bob" }]
keywords = ["all"]

[metadata]
difficulty = "hard"
category = "database"
tags = ["sql", "files"]
languages = ["sql"]
expert_time_estimate_hours = 1.5
junior_time_estimate_min = 240
custom = { nested = true }

[environment]
build_timeout_sec = 900.0
docker_image = "example.org/image:1"
os = "Linux"
cpus = 2
memory = "2G"
storage_mb = 4096
gpus = 1
gpu_types = ["H100"]
tpu = { type = "v6e", topology = "2x4" }
network_mode = "allowlist"
allowed_hosts = ["Example.ORG.", "*.pkg.dev", "192.0.2.0/24", "2001:DB8:0::1"]
env = { MODE = "${MODE:-fast}" }
skills_dir = "/skills"
workdir = "/srv"

[environment.healthcheck]
command = "true"
interval_sec = 1.0
retries = 7

[[environment.mcp_servers]]
name = "tools"
transport = "http"
url = "http://localhost:1/mcp"

[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "serve"
args = ["-x"]

[agent]
timeout_sec = 1200
user = "agent"
network_mode = "no-network"

[verifier]
timeout_sec = 77.5
env = { KEY = "value" }
user = 0
environment_mode = "separate"

[verifier.environment]
docker_image = "example.org/grader:1"
memory_mb = 256

[[verifier.collect]]
command = "dump"
service = "db"
timeout_sec = 9.0

[solution]
env = { HINT = "1" }
"""


def test_every_field_arrives(tmp_path: Path) -> None:
    task = load_task(harbor(tmp_path / "t", task_toml=EVERYTHING))

    assert task.id == "acme/everything"
    assert task.metadata.authors == ("Ada <ada@example.org>", "Bob")
    assert (task.metadata.version, task.metadata.keywords) == ("2.1", ("all",))
    assert (task.metadata.expert_time_min, task.metadata.junior_time_min) == (90.0, 240.0)
    assert task.metadata.extra == {"custom": {"nested": True}}
    environment = task.environment
    assert (environment.image, environment.cpus, environment.memory_mb, environment.storage_mb) == (
        "example.org/image:1",
        2,
        2048,
        4096,
    )
    assert (environment.gpus, environment.gpu_types, environment.tpu and environment.tpu.topology) == (
        1,
        ("H100",),
        "2x4",
    )
    assert environment.network == NetworkPolicy(
        mode="allowlist", allowed_hosts=("example.org", "*.pkg.dev", "192.0.2.0/24", "2001:db8::1")
    )
    assert environment.healthcheck == Healthcheck(command="true", interval_sec=1.0, retries=7)
    assert environment.mcp_servers == (
        McpServer(name="tools", transport="streamable-http", url="http://localhost:1/mcp"),
        McpServer(name="local", transport="stdio", command="serve", args=("-x",)),
    )
    assert (environment.env, environment.skills_dir, environment.workdir) == (
        {"MODE": "${MODE:-fast}"},
        "/skills",
        "/srv",
    )
    assert environment.build_timeout_s == 900.0
    assert task.agent == AgentPhase(timeout_s=1200.0, user="agent", network=NetworkPolicy(mode="none"))
    assert (task.grading.timeout_s, task.grading.env, task.grading.user) == (77.5, {"KEY": "value"}, 0)
    assert task.grading.environment is not None
    assert (task.grading.mode, task.grading.environment.image, task.grading.environment.memory_mb) == (
        "separate",
        "example.org/grader:1",
        256,
    )
    assert task.grading.collect == (Collect(command="dump", service="db", timeout_sec=9.0),)
    assert task.artifacts == (
        Artifact(source="/app/out.txt"),
        Artifact(source="/var/lib/db", destination="db", exclude=("*.log",), service="db"),
    )
    assert task.solution is not None
    assert task.solution.env == {"HINT": "1"}
    assert task.provenance.source == "recording 42"
    assert task.findings == ()


def test_what_is_loaded_but_not_plain_is_a_need(tmp_path: Path) -> None:
    task = load_task(harbor(tmp_path / "t", task_toml=EVERYTHING))
    assert [need.capability for need in needs_of(task)] == [
        "collect-hooks",
        "gpu",
        "healthcheck",
        "image",
        "mcp",
        "network-allowlist",
        "network-none",
        "separate-grader",
        "service-artifacts",
        "skills",
        "tpu",
    ]


def test_defaults_are_harbors(tmp_path: Path) -> None:
    task = load_task(harbor(tmp_path / "plain", task_toml='version = "1.0"\n'))
    assert task.id == "plain"
    assert task.agent.timeout_s is None
    assert task.grading.timeout_s == 600.0
    assert task.environment.network.mode == "public"
    assert task.environment.build_timeout_s == 600.0
    assert (task.grading.mode, task.grading.environment) == ("shared", None)
    assert task.tests is not None
    assert (task.tests.entry, task.tests.verdict) == ("test.sh", "reward_file")
    assert task.provenance.schema_version == "1.0"


@pytest.mark.parametrize(
    ("section", "mode"),
    [
        ("allow_internet = true", "public"),
        ("allow_internet = false", "none"),
        ('allow_internet = true\nnetwork_mode = "no-network"', "none"),
    ],
)
def test_the_older_network_field_loses_against_the_newer(tmp_path: Path, section: str, mode: str) -> None:
    task = load_task(harbor(tmp_path / "t", task_toml=f"[environment]\n{section}\n"))
    assert task.environment.network.mode == mode


def test_multi_step_tasks_inherit_what_a_step_leaves_out(tmp_path: Path) -> None:
    document = """\
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 100.0
user = "agent"
[verifier]
timeout_sec = 50.0
env = { A = "1", B = "1" }
[[steps]]
name = "first"
min_reward = 0.5
artifacts = ["/app/a"]
[[steps]]
name = "second"
min_reward = { reward = 1.0 }
[steps.agent]
timeout_sec = 10.0
[steps.verifier]
timeout_sec = 5.0
env = { B = "2" }
[steps.healthcheck]
command = "ready"
"""
    folder = write_folder(
        tmp_path / "t",
        {
            **{name: text for name, text in HARBOR.items() if name not in ("instruction.md", "solution/solve.sh")},
            "task.toml": document,
            "steps/first/instruction.md": "First.\n",
            "steps/first/workdir/setup.sh": "true\n",
            "steps/first/solution/solve.sh": "true\n",
            "steps/second/instruction.md": "Second.\n",
            "steps/second/tests/test.sh": "true\n",
            "steps/second/trajectory.json": "{}",
        },
    )
    task = load_task(folder)

    first, second = task.steps
    assert task.instruction == ""
    assert task.reward_strategy == "final"
    assert (first.instruction, first.agent.timeout_s, first.agent.user, first.grading.timeout_s) == (
        "First.\n",
        100.0,
        "agent",
        50.0,
    )
    assert (first.tests, [file.path for file in first.workdir], first.min_reward) == (None, ["setup.sh"], 0.5)
    assert (second.agent.timeout_s, second.agent.user, second.grading.timeout_s) == (10.0, "agent", 5.0)
    assert second.grading.env == {"A": "1", "B": "2"}
    assert second.min_reward == {"reward": 1.0}
    assert second.tests is not None
    assert [file.path for file in second.trajectory] == ["trajectory.json"]
    assert {need.capability for need in needs_of(task)} >= {"multi-step", "prior-trajectory", "healthcheck"}


def test_a_step_without_tests_of_its_own_or_of_the_task_is_refused(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "t",
        {
            "task.toml": '[[steps]]\nname = "only"\n',
            "environment/Dockerfile": "FROM x\n",
            "steps/only/instruction.md": "Do.\n",
        },
    )
    with pytest.raises(TaskFormatError, match=r"steps/only/tests/test\.sh: found no such file"):
        load_task(folder)


def test_the_graders_own_image_may_hold_the_tests(tmp_path: Path) -> None:
    files = {name: text for name, text in HARBOR.items() if not name.startswith("tests/")}
    folder = write_folder(
        tmp_path / "t",
        {**files, "task.toml": '[verifier]\nenvironment_mode = "separate"\n', "tests/Dockerfile": "FROM grader\n"},
    )
    task = load_task(folder)
    assert task.tests is None
    assert task.grading.environment is not None
    assert [file.path for file in task.grading.environment.context] == ["Dockerfile"]


def test_our_extension_declares_a_recipe_without_an_image(tmp_path: Path) -> None:
    document = TASK_TOML + '\n[metadata.termarena]\nrequires = ["sh", "gcc"]\nsetup = "setup.sh"\nservices = ["web"]\n'
    task = load_task(write_folder(tmp_path / "t", {**HARBOR, "task.toml": document, "environment/setup.sh": "true\n"}))
    assert task.environment.bare == BareRecipe(requires=("sh", "gcc"), setup="setup.sh")
    assert task.environment.services == ("web",)
    assert "image" not in {need.capability for need in needs_of(task)}


def test_canary_lines_are_hidden_from_the_agent(tmp_path: Path) -> None:
    text = "<!-- BENCHMARK CANARY 123 -->\n# another canary GUID\n\n# Real title\nDo it.\n"
    task = load_task(harbor(tmp_path / "t", instruction_md=text))
    assert task.instruction == "# Real title\nDo it.\n"


def test_terminalworld_folders_keep_where_they_came_from(tmp_path: Path) -> None:
    files = {
        **HARBOR,
        "task.toml": '[metadata]\ntask_source = "https://asciinema.example/a/1"\n',
        "source/info.json": "{}",
        "source/recording.txt": "$ ls\n",
        "status.json": "{}",
        "refinement_metadata.json": "{}",
    }
    task = load_task(write_folder(tmp_path / "t", files))
    assert task.provenance.format == "terminalworld"
    assert task.provenance.source == "https://asciinema.example/a/1"
    assert [file.path for file in task.extras] == [
        "refinement_metadata.json",
        "source/info.json",
        "source/recording.txt",
        "status.json",
    ]


def test_unknown_fields_are_kept_and_the_nearest_name_is_told(tmp_path: Path) -> None:
    document = (
        '[agent]\ntimout_sec = 5.0\n[environment]\nzzz = 1\n[environment.healthcheck]\ncommand = "x"\nretry = 2\n'
    )
    folder = harbor(tmp_path / "t", task_toml=document)
    task = load_task(folder)
    assert task.unknown == {"agent.timout_sec": 5.0, "environment.zzz": 1, "environment.healthcheck.retry": 2}
    assert [finding.message for finding in task.findings] == [
        "unknown field agent.timout_sec; did you mean timeout_sec?",
        "unknown field environment.zzz",
        "unknown field environment.healthcheck.retry; did you mean retries?",
    ]
    with pytest.raises(TaskFormatError, match="unknown field"):
        load_task(folder, strict=True)


def test_loose_numbers_are_read_as_meant(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "t", task_toml='[agent]\ntimeout_sec = "60"\n[environment]\ncpus = 2.0\n')
    task = load_task(folder)
    assert (task.agent.timeout_s, task.environment.cpus) == (60.0, 2)
    assert {finding.rule for finding in task.findings} == {"loose-type"}
    with pytest.raises(TaskFormatError, match=r"environment\.cpus"):
        load_task(folder, strict=True)
