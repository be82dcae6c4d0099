"""What a step of an agent with a model costs beside the model itself, and many such trials at once.

Usage: python benchmarks/agents.py [--steps 100] [--rounds 5] [--trials 200] [--harbor PROGRAM --base IMAGE]

The model is scripted and answers at once, so that what is left of a trial's work is the harness: the reply is read,
recorded and saved, the command `true` is run in a sandbox of the embedded driver, what came is told. The time of a step
is the length of the work phase, without the opening of the terminal, divided by the steps. Then --trials trials of
five steps are carried out at once; each must be solved with every step in its trajectory.

--harbor: our `terminus` beside Harbor's Terminus 2, both in containers of the image --base (with bash, tmux and
asciinema) on the engine of DOCKER_HOST, with the same replies of the same model server. The server takes the time from
each of its answers to the next question. The keystrokes ask for no wait.

Prints a table and then JSON. Exits 0 if every aim was met, 1 if one was missed, 2 where the embedded driver cannot run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "beside"))

from hello import write_harbor_tasks
from termarena.core.errors import CapabilityMissing
from termarena.core.run_folder import AttemptFolder
from termarena.core.trajectory import read_trajectory
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials
from termarena.sandbox.drivers import choose_driver
from termarena.tasks import load_task
from toy_model import ToyModel

if TYPE_CHECKING:
    from termarena.runs.result import TrialResult
    from termarena.tasks import Task

WANTED_MS = 10.0
WANTED_SHARE = 0.2
"""Of Harbor's time per step."""
BESIDE_STEPS = 20
SMALL_STEPS = 5
TASK = {
    "task.toml": """\
schema_version = "1.4"
[metadata]
category = "scripting"
difficulty = "easy"
[metadata.termarena]
requires = ["sh"]
setup = "setup.sh"
[agent]
timeout_sec = 600.0
[verifier]
timeout_sec = 120.0
[environment]
cpus = 1
memory_mb = 256
network_mode = "no-network"
workdir = "/app"
""",
    "instruction.md": "Write 1 to /app/one.txt.\n",
    "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
    "environment/setup.sh": "mkdir -p /app\n",
    "solution/solve.sh": "#!/bin/sh\necho 1 >/app/one.txt\n",
    "tests/test.sh": "#!/bin/sh\ngrep -qx 1 /app/one.txt && echo 1 >/logs/verifier/reward.txt\n",
}


class Figure(NamedTuple):
    """What one agent's steps took."""

    agent: str
    step_ms: list[float]
    """One per round."""

    @property
    def median_ms(self) -> float:
        """Over the rounds."""
        return statistics.median(self.step_ms)


def write_task(folder: Path) -> Task:
    """The smallest task."""
    for name, text in TASK.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return load_task(folder)


def replies(agent: str, steps: int) -> list[dict[str, Any]]:
    """A script of so many steps that solves the task with its last one."""
    commands = [f"true {number}" for number in range(steps - 1)] + ["echo 1 >/app/one.txt"]
    if agent == "terminus":
        typed = [{"content": json.dumps({"commands": [{"keystrokes": f"{each}\n"}]})} for each in commands]
        done = {"content": json.dumps({"commands": [], "task_complete": True})}
        return [*typed, done, done]
    if agent == "tools-text":
        written = [{"content": f"ACTION: EXECUTE\nCOMMAND: {each}"} for each in commands]
        return [*written, {"content": "ACTION: TASK_COMPLETE"}]
    called = [{"tool_calls": [{"name": "EXECUTE", "arguments": {"command": each}}]} for each in commands]
    return [*called, {"tool_calls": [{"name": "TASK_COMPLETE"}]}]


class Bench:
    """Trials of one task by scripted models."""

    def __init__(self, home: Path) -> None:
        """`home` is a folder of its own."""
        self.home = home
        self.task = write_task(home / "one")

    def options(self, agent: str, steps: int) -> RunOptions:
        """Of a run with a script of so many steps."""
        script = self.home / f"{agent}-{steps}.json"
        script.write_text(json.dumps({"replies": replies(agent, steps)}))
        return RunOptions(
            agent=agent, model=f"scripted:{script}", max_steps=steps + 3, driver="namespace", keep_state=False
        )

    async def step_ms(self, agent: str, steps: int, number: int) -> float:
        """What a step takes in one trial."""
        folder = AttemptFolder(self.home / "attempts" / f"{agent}-{number}")
        async with Trials(self.options(agent, steps), home=self.home, run_id="bench") as trials:
            result = await trials.run(plan_of(self.task, 1), self.task, folder=folder)
        require_solved(result)
        calls = json.loads(folder.tool_calls.read_text())["calls"]
        opening_s: float = sum(call["duration_s"] for call in calls if call["name"] == "terminal")
        return (result.clocks["work"].duration_s - opening_s) / steps * 1000

    async def at_once(self, count: int) -> dict[str, float | int]:
        """So many trials side by side; every step of every one must be there."""
        options = self.options("tools", SMALL_STEPS)
        began = time.monotonic()
        async with Trials(options, home=self.home, run_id="bench") as trials:
            folders = [AttemptFolder(self.home / "many" / str(number)) for number in range(count)]
            plans = [plan_of(self.task, number + 1) for number in range(count)]
            results = await asyncio.gather(
                *(trials.run(plan, self.task, folder=folder) for plan, folder in zip(plans, folders, strict=True))
            )
        wall_s = time.monotonic() - began
        steps = [sum(step.llm_call_count == 1 for step in read_trajectory(each.trajectory).steps) for each in folders]
        return {
            "trials": count,
            "wall_s": round(wall_s, 2),
            "solved": sum(result.outcome == "solved" for result in results),
            "steps": sum(steps),
            "lost_steps": count * (SMALL_STEPS + 1) - sum(steps),
        }


def beside_harbor(home: Path, program: str, base: str) -> dict[str, list[float]]:
    """The milliseconds of every step of both, each in a trial of its own."""
    folder = write_harbor_tasks(home / "tasks", 1, base)
    typed = [f"true {number}\n" for number in range(BESIDE_STEPS)] + ["echo 'Hello, world!' >/app/hello.txt\n"]
    said = [{"analysis": "a", "plan": "p", "commands": [{"keystrokes": keys, "duration": 0.0}]} for keys in typed]
    done: dict[str, Any] = {"analysis": "a", "plan": "p", "commands": [], "task_complete": True}
    texts = [json.dumps(reply) for reply in [*said, done, done]]
    found = {}
    for name in ("harbor", "termarena"):
        print(f"== {name} in a container", file=sys.stderr)
        with ToyModel(texts) as model:
            environment = {**os.environ, "OPENAI_API_KEY": "not-a-key", "OPENAI_API_BASE": model.url}
            environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
            what = ["-p", str(folder), "-o", str(home / name)]
            if name == "harbor":
                how = ["run", "-q", "-y", "-a", "terminus-2", "-m", "openai/toy", "--ak", f"api_base={model.url}"]
            else:
                program = str(Path(sys.executable).with_name("termarena"))
                how = ["run", "-a", "terminus", "-m", f"openai:toy@{model.url}", "--driver", "docker"]
            log = home / f"{name}.log"
            with log.open("wb") as output:
                subprocess.run([program, *how, *what], env=environment, stdout=output, stderr=output, check=False)  # noqa: S603 - as named
            found[name] = model.between_ms()[:BESIDE_STEPS]
        if len(found[name]) < BESIDE_STEPS:
            sys.exit(f"void: {name} asked {len(found[name])} times; it said:\n{log.read_text()[-2000:]}")
    return found


def require_solved(result: TrialResult) -> None:
    """A trial that did something else measured something else."""
    if result.outcome != "solved":
        sys.exit(
            f"void: a trial ended {result.outcome} ({result.agent_end}): {result.fault_detail or result.agent_error}"
        )


async def measure(home: Path, options: argparse.Namespace) -> tuple[list[Figure], dict[str, float | int]]:
    """All figures, in turns."""
    bench = Bench(home)
    agents = ("tools", "tools-text", "terminus")
    figures = {agent: Figure(agent, []) for agent in agents}
    for number in range(options.rounds):
        for agent in agents:
            figures[agent].step_ms.append(await bench.step_ms(agent, options.steps, number))
    print(f"== {options.trials} trials at once", file=sys.stderr)
    return [*figures.values()], await bench.at_once(options.trials)


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--harbor")
    parser.add_argument("--base", default="debian:bookworm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as place:
        try:
            choose_driver("namespace", write_task(Path(place) / "one").environment, home=Path(place))
        except CapabilityMissing as error:
            print(f"cannot be measured here: {error}", file=sys.stderr)
            return 2
        figures, many = asyncio.run(measure(Path(place), options))
        beside = beside_harbor(Path(place), options.harbor, options.base) if options.harbor else {}
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, load {load:.1f}\n")
    for figure in figures:
        shown = ", ".join(f"{each:.2f}" for each in figure.step_ms)
        print(f"{figure.agent:12} {figure.median_ms:6.2f} ms per step (limit {WANTED_MS:g}); rounds: {shown}")
    print(
        f"{many['trials']} trials at once: {many['solved']} solved, {many['lost_steps']} steps lost, {many['wall_s']} s"
    )
    medians = {name: statistics.median(steps) for name, steps in beside.items()}
    for name, median_ms in medians.items():
        print(f"{name} in a container: {median_ms:.1f} ms per step")
    document: dict[str, Any] = {
        "load": round(load, 1),
        "steps": {figure.agent: figure.step_ms for figure in figures},
        "at_once": many,
    }
    document["beside_ms"] = {name: [round(each, 2) for each in steps] for name, steps in beside.items()}
    print(json.dumps(document))
    is_met = all(figure.median_ms <= WANTED_MS for figure in figures)
    is_met &= not medians or medians["termarena"] <= WANTED_SHARE * medians["harbor"]
    return 0 if is_met and many["solved"] == many["trials"] and not many["lost_steps"] else 1


if __name__ == "__main__":
    sys.exit(main())
