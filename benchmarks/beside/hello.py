"""Hello-world tasks in two formats, the smallest that the harnesses agree to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_harbor_tasks", "write_terminal_bench_tasks"]

INSTRUCTION = 'Write "Hello, world!" and nothing else to /app/hello.txt.\n'
DOCKERFILE = "FROM {base}\nWORKDIR /app\n"
SOLUTION = '#!/bin/sh\necho "Hello, world!" > /app/hello.txt\n'
IS_RIGHT = '[ "$(cat /app/hello.txt)" = "Hello, world!" ]'
TASK_TOML = """\
version = "1.0"

[metadata.termarena]
requires = ["sh"]

[verifier]
timeout_sec = 60.0

[agent]
timeout_sec = 60.0

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 512
workdir = "/app"
"""
TEST_SH = f"""\
#!/bin/sh
mkdir -p /logs/verifier
if {IS_RIGHT}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
TASK_YAML = """\
instruction: Write "Hello, world!" and nothing else to /app/hello.txt.
author_name: Example
author_email: example@example.org
difficulty: easy
category: file-operations
tags: [file-operations]
parser_name: pytest
max_agent_timeout_sec: 60.0
max_test_timeout_sec: 60.0
run_tests_in_same_shell: false
"""
# What pytest prints at its end, which is all that `tb` reads of it.
RUN_TESTS_SH = """\
#!/bin/sh
if cmp /app/hello.txt "$TEST_DIR/expected.txt"; then word=PASSED; else word=FAILED; fi
echo "=========================== short test summary info ============================"
echo "$word test_outputs.py::test_hello"
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


def write_harbor_tasks(folder: Path, count: int, base: str) -> Path:
    """Folders with a `task.toml`; they declare what they need, so that they run without an image as well."""
    files = {
        "task.toml": TASK_TOML,
        "instruction.md": INSTRUCTION,
        "environment/Dockerfile": DOCKERFILE.format(base=base),
        "solution/solve.sh": SOLUTION,
        "tests/test.sh": TEST_SH,
    }
    return _write(folder, count, files)


def write_terminal_bench_tasks(folder: Path, count: int, base: str) -> Path:
    """Folders with a `task.yaml`."""
    files = {
        "task.yaml": TASK_YAML,
        "Dockerfile": DOCKERFILE.format(base=base),
        "docker-compose.yaml": COMPOSE,
        "solution.sh": SOLUTION,
        "run-tests.sh": RUN_TESTS_SH,
        "tests/expected.txt": "Hello, world!\n",
    }
    return _write(folder, count, files)


def _write(folder: Path, count: int, files: dict[str, str]) -> Path:
    for number in range(count):
        for name, text in files.items():
            place = folder / f"hello-{number:03}" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            if name.endswith(".sh"):
                place.chmod(0o755)
    return folder
