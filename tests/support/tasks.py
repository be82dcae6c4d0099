"""Tasks that the embedded sandbox can run, written for one test each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.folders import write_folder
from termarena.tasks import Task, load_task

if TYPE_CHECKING:
    from pathlib import Path

LOOKS_FOR_ONE = """\
#!/bin/sh
if grep -qx 1 /app/one.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


@dataclass(frozen=True)
class Made:
    """What differs from the smallest task: write 1 to /app/one.txt."""

    solution: str = "echo 1 >/app/one.txt\n"
    tests: str = LOOKS_FOR_ONE
    setup: str = "mkdir -p /app\n"
    agent_s: float = 30.0
    verifier_s: float = 30.0
    services: tuple[str, ...] = ()
    memory_mb: int = 1024
    cpus: int = 1
    is_separate: bool = False
    """Whether the grader has a sandbox of its own."""
    artifacts: tuple[str, ...] = ()
    toml: str = ""
    """Further tables at the end of the document."""
    files: dict[str, str] = field(default_factory=dict)


def make_task(folder: Path, made: Made | None = None) -> Task:
    """The task, loaded; its id is the folder's name."""
    made = made or Made()
    services = f"services = {list(made.services)}\n" if made.services else ""
    separate = 'environment_mode = "separate"\n' if made.is_separate else ""
    document = (
        f'schema_version = "1.4"\nartifacts = {list(made.artifacts)}\n'
        '[metadata]\ncategory = "scripting"\ndifficulty = "easy"\n'
        f'[metadata.termarena]\nrequires = ["sh"]\nsetup = "setup.sh"\n{services}'
        f"[agent]\ntimeout_sec = {made.agent_s}\n"
        f"[verifier]\ntimeout_sec = {made.verifier_s}\n{separate}"
        f'[environment]\ncpus = {made.cpus}\nmemory_mb = {made.memory_mb}\nnetwork_mode = "no-network"\n'
        f'workdir = "/app"\n{made.toml}'
    )
    write_folder(
        folder,
        {
            "task.toml": document,
            "instruction.md": "Write 1 to /app/one.txt.\n",
            "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
            "environment/setup.sh": made.setup,
            "solution/solve.sh": "#!/bin/sh\n" + made.solution,
            "tests/test.sh": made.tests,
            **made.files,
        },
    )
    return load_task(folder)
