"""Conditions that not every task allows: a later date, another user, another order of tests."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.tasks import Made
from termarena.proof import further
from termarena.proof.conditions import PLACE, Condition
from termarena.proof.evidence import Evidence
from termarena.proof.further import (
    LATER,
    OTHER_ORDER,
    OTHER_USER,
    UNREACHED,
    further_conditions,
    task_under,
    why_unreached,
)
from termarena.proof.shuffling import MARK
from termarena.sandbox import Capabilities, Feature

if TYPE_CHECKING:
    from proof.conftest import Prover

EVERYTHING = Capabilities("namespace", frozenset(Feature))
SOLVED = Evidence(stage="solvable", name="oracle", key="1", outcome="solved", state={"/app/one.txt": "file 644 0:0 x"})
ORDERED = """\
import pathlib

def test_first(tmp_path_factory):
    pathlib.Path("/tmp/seen").write_text("1")

def test_second():
    assert pathlib.Path("/tmp/seen").read_text() == "1"

def test_third():
    assert pathlib.Path("/tmp/seen").exists()
    assert pathlib.Path("/app/one.txt").read_text() == "1\\n"
"""
BY_PYTEST = """\
#!/bin/sh
PYTHONPATH=$PYTHONPATH:/tests/lib python3 -B -m pytest -rA -p no:cacheprovider /tests/test_it.py
if [ $? = 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


def _tried(prover: Prover, made: Made, solved: Evidence = SOLVED) -> dict[str, Condition | str]:
    possible, untried = further_conditions(prover.task(made), solved, EVERYTHING)
    return {one.name: one for one in possible} | {one.condition: one.why for one in untried}


@pytest.mark.needs("user-namespaces")
async def test_a_solution_that_wants_to_be_root_without_need_is_fragile(prover: Prover) -> None:
    made = Made(solution='[ "$(id -u)" = 0 ] || exit 1\necho 1 >/app/one.txt\n')
    proof = await prover.prove(prover.task(made), attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.failed_conditions == (OTHER_USER,)
    assert [fault.rule for fault in proof.faults] == ["fragile"]
    assert OTHER_ORDER in {one.condition for one in proof.solvable.untried}


@pytest.mark.needs("user-namespaces", "git")
async def test_a_repository_that_another_user_owns_is_not_held_against_a_task(prover: Prover) -> None:
    made = Made(
        setup="mkdir -p /app/it; cd /app/it; git init -q; chown -R 0:0 /app\n",
        solution="cd /app/it && git config test.answer 1\n",
        tests="#!/bin/sh\ncd /app/it\ngit status || exit 1\ngit config test.answer >/logs/verifier/reward.txt ||\n"
        "echo 0 >/logs/verifier/reward.txt\n",
    )
    proof = await prover.prove(prover.task(made), attempts=5, mutants=0)
    assert proof.solvable is not None
    assert OTHER_USER in {one.condition for one in proof.evidence if one.passes}, proof.solvable
    assert proof.solvable.is_sound


@pytest.mark.needs("user-namespaces", "gcc", "python3")
async def test_a_solution_that_is_bound_to_a_date_is_fragile(prover: Prover) -> None:
    wait = "import threading, time; time.sleep(0.01); threading.Event().wait(0.01)"
    made = Made(
        solution=f"date +%Y >/app/year.txt\npython3 -c '{wait}' && echo 1 >/app/one.txt\n",
        # A program that is started with no environment sees the same time. Seconds and not days are compared: the time
        # zone is lost with the environment, and in that of `elsewhere` it is another day for half of each.
        tests="#!/bin/sh\nexec >/logs/verifier/reward.txt\nseen=$(date +%s)\n"
        'if [ "$(env -i date +%s)" -ge "$seen" ]; then cat /app/one.txt || echo 0; else echo 0; fi\n',
    )
    proof = await prover.prove(prover.task(made, "free"), attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.is_sound, proof.faults
    assert LATER in {one.condition for one in proof.evidence}
    assert "/app/year.txt" in proof.solvable.noise
    bound = Made(solution=f'[ "$(date +%s)" -lt {int(time.time()) + 30 * 86_400} ] || exit 1\necho 1 >/app/one.txt\n')
    proof = await prover.prove(prover.task(bound, "bound"), attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.failed_conditions == (LATER,)


@pytest.mark.needs("gcc")
def test_programs_wait_and_find_their_files_on_a_later_date(tmp_path: Path) -> None:
    later = further._compiled("gcc")  # noqa: SLF001 - what the condition lays into sandboxes
    assert later is not None
    (tmp_path / "later.so").write_bytes(later)
    program = str(tmp_path / "checks")
    source = Path(__file__).parent / "later_checks.c"
    subprocess.run(["gcc", "-pthread", str(source), "-o", program], check=True)  # noqa: S603, S607 - of this machine
    preloaded = {"LD_PRELOAD": str(tmp_path / "later.so")}
    for shift_s, env in ((0, {}), (further.DAYS * further.DAY_S, preloaded)):
        words = [program, str(int(time.time()) + shift_s), str(tmp_path / f"file-{shift_s}")]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - ours
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("user-namespaces", "gcc")
async def test_a_library_that_breaks_the_programs_of_an_image_is_not_held_against_the_task(
    prover: Prover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "breaking.c"
    source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void end(void) { _exit(1); }\n")
    words = ("gcc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "breaking.so"))
    assert await (await asyncio.create_subprocess_exec(*words)).wait() == 0
    monkeypatch.setattr(further, "_compiled", lambda _: (tmp_path / "breaking.so").read_bytes())
    proof = await prover.prove(prover.task(Made()), attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.is_sound, proof.solvable
    assert "do not load" in {one.condition: one.why for one in proof.solvable.untried}[LATER]


@pytest.mark.needs("user-namespaces", "gcc")
async def test_the_date_changes_for_an_agent_who_is_not_root_too(prover: Prover) -> None:
    task = prover.task(Made(setup="mkdir -p /app; chown 12345:12345 /app\n"))
    stranger = task_under(task, Condition("own", "the task's own user", user="12345:12345"))
    proof = await prover.prove(stranger, attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.is_sound, proof.solvable
    assert LATER in {one.condition for one in proof.evidence}


def test_what_takes_root_is_not_tried_by_another_user(prover: Prover) -> None:
    changed = SOLVED.model_copy(update={"state": {"/app/one.txt": "file", "/etc/motd": "file"}})
    assert _tried(prover, Made(), changed)[OTHER_USER] == "the solution changes /etc/motd, which takes root"
    serving = SOLVED.model_copy(update={"processes_left": 1})
    assert "leaves processes" in str(_tried(prover, Made(), serving)[OTHER_USER])
    assert isinstance(_tried(prover, Made())[OTHER_USER], Condition)


def test_a_date_is_not_changed_where_certificates_have_one(prover: Prover) -> None:
    task = prover.task(Made())
    networked = task.environment.model_copy(
        update={"network": task.environment.network.model_copy(update={"mode": "public"})}
    )
    _, untried = further_conditions(task.model_copy(update={"environment": networked}), SOLVED, EVERYTHING)
    assert "certificates" in {one.condition: one.why for one in untried}[LATER]


def test_a_condition_that_was_not_reached_says_nothing() -> None:
    told = SOLVED.model_copy(update={"condition": LATER, "message": f"done; {UNREACHED}no library"})
    assert why_unreached(told) == "no library"
    assert why_unreached(SOLVED) is None
    distrusted = {"condition": OTHER_USER, "output": "fatal: detected dubious ownership in repository at '/app'"}
    assert "git refuses" in str(why_unreached(SOLVED.model_copy(update=distrusted)))
    unordered = SOLVED.model_copy(update={"condition": OTHER_ORDER, "output": "3 passed"})
    assert why_unreached(unordered) is not None
    assert why_unreached(unordered.model_copy(update={"output": f"3 passed\n{MARK} 7\n"})) is None


def test_pytest_takes_the_order_of_the_seed(prover: Prover, tmp_path: Path) -> None:
    condition = _tried(prover, Made(tests=BY_PYTEST))[OTHER_ORDER]
    assert isinstance(condition, Condition)
    for name, content in condition.files.items():
        (tmp_path / name).write_bytes(content)
    names = [f"test_{number}" for number in range(8)]
    (tmp_path / "test_it.py").write_text("".join(f"def {name}(): pass\n" for name in names))
    env = {name: value.replace(PLACE, str(tmp_path)) for name, value in condition.env.items()}
    words = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    order = re.findall(r"^PASSED .*::(\w+)$", done.stdout, re.MULTILINE)
    assert sorted(order) == names != order
    assert done.stdout.splitlines()[-1] == f"{MARK} 7"


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
async def test_tests_that_lean_on_each_other_are_fragile(prover: Prover) -> None:
    task = prover.task(Made(tests=BY_PYTEST, files={"tests/test_it.py": ORDERED, **_pytest_itself()}))
    proof = await prover.prove(task, attempts=5, mutants=0)
    assert proof.solvable is not None
    assert proof.solvable.failed_conditions == (OTHER_ORDER,), proof.solvable


def _pytest_itself() -> dict[str, str]:
    """The files of pytest and of what it needs, to run in a sandbox that has none."""
    about = f"Metadata-Version: 2.1\nName: pluggy\nVersion: {version('pluggy')}\n"
    found = {"tests/lib/pluggy.dist-info/METADATA": about}
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        path = Path(spec.origin)
        for one in path.parent.rglob("*.py") if spec.submodule_search_locations else (path,):
            if "lexers" not in one.parts or one.stem in ("__init__", "_mapping", "diff", "python"):
                inside = one.relative_to(path.parent.parent if spec.submodule_search_locations else path.parent)
                found[f"tests/lib/{inside}"] = one.read_text(encoding="utf-8")
    return found
