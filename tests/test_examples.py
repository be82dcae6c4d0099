"""What users copy from examples/ works as it stands; the two agents are tried by tests/agents and tests/battles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import yaml

from running import PATIENCE_S, termarena
from support.pages import Block, problems_of

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
TASK = EXAMPLES / "status-report"


@pytest.mark.slow
@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize(
    ("agent", "solved"),
    [("oracle", 1), ("nop", 0), (f"script:{TASK}/cheats/one-status.sh", 0)],
    ids=["oracle", "nop", "cheat"],
)
def test_the_task_is_solved_by_its_solution_alone(agent: str, solved: int, tmp_path: Path) -> None:
    done = termarena("run", "--path", str(TASK), "--agent", agent, "--out", "run", "--strict", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["solved"], report["unscored"]) == (solved, 0)


def _baseline(folder: Path, name: str, agent: str) -> None:
    done = termarena("run", "--agent", agent, "--out", name, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_the_plot_shows_every_run_with_its_interval(tmp_path: Path) -> None:
    _baseline(tmp_path, "right", "always-right")
    _baseline(tmp_path, "chance", "random:1")
    done = _python("plot_runs.py", "chance", "right", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    picture = ET.fromstring(done.stdout)  # noqa: S314 - our own
    texts = [element.text for element in picture.iter() if element.text]
    assert texts.index("always-right") < texts.index("random:1")
    assert texts.count("100 %") == 2  # on the axis, and beside the run
    assert len([element for element in picture.iter() if element.tag.endswith("circle")]) == 2


def test_the_plot_without_runs_says_how_it_is_called(tmp_path: Path) -> None:
    done = _python("plot_runs.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "python plot_runs.py RUN" in done.stderr


def _python(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own example
        [sys.executable, str(EXAMPLES / script), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


# Stands where `termarena` is looked for: proofs take minutes, and whether one passes is not the gate's matter.
STAND_IN = """#!/bin/sh
if [ "$1" = prove ]; then exit "$PROOF_STATUS"; fi
if [ "$1" = run ]; then shift; exec {python} -m termarena run --agent "$CANDIDATE" --attempts 3 --out candidate; fi
exec {python} -m termarena "$@"
"""


def _gate(folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    stand_in = folder / "bin" / "termarena"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    return subprocess.run(  # noqa: S603 - our own example
        [str(EXAMPLES / "gate.sh"), str(TASK), str(EXAMPLES / "policy.toml"), "mine", "baseline"],
        cwd=folder,
        env={**os.environ, **environment, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proof_status", "candidate", "status", "told"),
    [
        ("0", "always-right", 0, "candidate against baseline: better"),
        ("0", "always-wrong", 1, "candidate against baseline: worse"),
        ("1", "always-right", 1, ""),
    ],
)
def test_the_gate_lets_through_what_is_proven_and_not_worse(
    proof_status: str, candidate: str, status: int, told: str, tmp_path: Path
) -> None:
    if proof_status == "0":
        _baseline(tmp_path, "baseline", "random:1")
    done = _gate(tmp_path, {"PROOF_STATUS": proof_status, "CANDIDATE": candidate})
    assert done.returncode == status, done.stderr
    assert told in done.stdout
    assert (tmp_path / "candidate").exists() == (proof_status == "0")


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
def test_the_task_passes_the_policy(tmp_path: Path) -> None:
    policy = str(EXAMPLES / "policy.toml")
    done = termarena("prove", str(TASK), "--gate", policy, cwd=tmp_path, patience_s=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_names_commands_that_exist() -> None:
    workflow = yaml.safe_load((EXAMPLES / "ci.yml").read_text())
    scripts = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    assert [script for script in scripts if "gate.sh" in script]
    for script in (*scripts, re.sub(r"\$\(|\)", "", (EXAMPLES / "gate.sh").read_text().split("word=")[0])):
        assert problems_of(Block(1, "sh", script, None, "")) == []
