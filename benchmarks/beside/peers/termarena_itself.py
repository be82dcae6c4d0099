"""TermArena, by its own command line, like the others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from peers.contract import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.contract import Job

__all__ = ["TermArena"]

RUN = "run"


class TermArena(NamedTuple):
    """`termarena run` of this interpreter."""

    driver: str = "docker"
    grading: str = "auto"
    name: str = "termarena"

    def command(self, job: Job) -> list[str]:
        """One run."""
        what = ["--path", str(job.tasks), "--agent", job.agent, "--attempts", str(job.attempts)]
        how = ["--driver", self.driver, "--grading", self.grading, "--concurrency", str(job.concurrency)]
        program = str(Path(sys.executable).with_name("termarena"))
        return [program, "run", *what, *how, "--out", str(job.out / RUN)]

    def rows(self, job: Job) -> dict[str, Row]:
        """By folder; of an attempt that was tried again, the last."""
        from termarena.tasks import load_dataset  # noqa: PLC0415 - reading the peers' folders needs nothing of ours

        folders = {task.id: Path(task.provenance.path).name for task in load_dataset(job.tasks)}
        results = sorted(self.results(job), key=lambda result: (result["attempt"], result["retry"]))
        return {folders[result["task_id"]]: _row(result) for result in results}

    def sandbox_cpu_s(self, job: Job) -> float | None:
        """Processor time of what ran inside the sandboxes and counts as ours: embedded ones are our children."""
        if self.driver != "namespace":
            return 0.0
        used = [result["metrics"].get("cpu_s") for result in self.results(job)]
        return None if None in used else sum(used)

    def results(self, job: Job) -> Iterator[dict[str, Any]]:
        """Every attempt's `result.json`."""
        for path in job.out.glob(f"{RUN}/trials/*/*/result.json"):
            yield json.loads(path.read_text())


def _row(result: dict[str, Any]) -> Row:
    seconds = sum(clock["duration_s"] for clock in result["clocks"].values())
    return Row(result["outcome"], result["reward"], _note(result), seconds)


def _note(result: dict[str, Any]) -> str:
    mode = result["failure_mode"]
    verdict = result.get("verdict") or {}
    parts = [] if mode in ("NONE", "TEST_FAILED") else [mode]
    if result.get("fault_detail"):
        parts.append(str(result["fault_detail"]["message"]).splitlines()[0])
    parts += [f"{finding['rule']}: {finding['path']}" for finding in verdict.get("findings", ()) if _is_grave(finding)]
    if verdict.get("others"):
        parts.append(f"counted: {verdict['graded_in']}")
    return "; ".join(parts)


def _is_grave(finding: dict[str, Any]) -> bool:
    return str(finding["severity"]) == "critical"
