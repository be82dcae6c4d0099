"""Task folders for tests: the smallest that load, in every format, with whatever a test wants to be different."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TASK_TOML = """\
schema_version = "1.4"

[metadata]
difficulty = "easy"
category = "scripting"

[agent]
timeout_sec = 60.0

[environment]
cpus = 1
"""
HARBOR = {
    "task.toml": TASK_TOML,
    "instruction.md": "Write 1 to /app/one.txt.\n",
    "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/sh\necho 1 >/app/one.txt\n",
    "tests/test.sh": "#!/bin/sh\ngrep -qx 1 /app/one.txt && echo 1 >/logs/verifier/reward.txt\n",
}
TASK_YAML = """\
instruction: |-
  Write 1 to /app/one.txt.
difficulty: easy
category: scripting
tags: [files]
parser_name: pytest
max_agent_timeout_sec: 120.0
max_test_timeout_sec: 30.0
"""
COMPOSE = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""
TERMINAL_BENCH_1 = {
    "task.yaml": TASK_YAML,
    "docker-compose.yaml": COMPOSE,
    "Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY data.txt /app/data.txt\n",
    "data.txt": "data\n",
    "run-tests.sh": "pytest $TEST_DIR/test_outputs.py -rA\n",
    "tests/test_outputs.py": "def test_one():\n    assert open('/app/one.txt').read() == '1\\n'\n",
    "solution.sh": "#!/bin/bash\necho 1 >/app/one.txt\n",
}
SIMPLE = {
    "metadata.json": json.dumps(
        {
            "task_id": "write-one",
            "category": "file_operations",
            "difficulty": "easy",
            "timeout_seconds": 90,
            "required_tools": ["bash"],
            "docker_image": "python:3.11-slim",
        }
    ),
    "instruction.txt": "Write 1 to /workspace/one.txt.\n",
    "test.sh": "#!/bin/bash\ngrep -qx 1 /workspace/one.txt\n",
    "solution.sh": "#!/bin/bash\necho 1 >/workspace/one.txt\n",
    "setup.sh": "#!/bin/bash\nmkdir -p /workspace\n",
}


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files below `folder`; scripts get their executable bit."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        if name.endswith(".sh"):
            place.chmod(0o755)
    return folder


def harbor(folder: Path, **changed: str | bytes) -> Path:
    """A Harbor folder; `task_toml=…` and the like replace the file of that name (`_` for the first dot)."""
    return write_folder(folder, {**HARBOR, **{name.replace("_", ".", 1): text for name, text in changed.items()}})


def terminal_bench_1(folder: Path, **changed: str | bytes) -> Path:
    """A Terminal-Bench 1 folder, likewise."""
    return write_folder(
        folder, {**TERMINAL_BENCH_1, **{name.replace("_", ".", 1): text for name, text in changed.items()}}
    )


def simple(folder: Path, **changed: str | bytes) -> Path:
    """A simple folder, likewise."""
    return write_folder(folder, {**SIMPLE, **{name.replace("_", ".", 1): text for name, text in changed.items()}})
