"""A task to start from: complete, small, and graded the way good tasks are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import tomli_w

from termarena.core.errors import UsageError
from termarena.tasks.files import FileTree, TreeFile

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["start_task"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
DIFFICULTIES = ("easy", "medium", "hard")

_INSTRUCTION = """\
The file /app/numbers.txt holds one whole number per line.

Write the sum of all of them to /app/sum.txt: digits only, followed by a newline. Leave /app/numbers.txt as it is.
"""
_DOCKERFILE = """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . /tmp/environment
RUN sh /tmp/environment/setup.sh && rm -rf /tmp/environment
"""
_SETUP = """\
#!/bin/sh
# Makes the start state; its files lie beside it. Also runs where there is no image.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /app
cp "$here/files/numbers.txt" /app/numbers.txt
"""
_SOLUTION = """\
#!/bin/sh
set -eu
total=0
while read -r number; do
  total=$((total + number))
done </app/numbers.txt
echo "$total" >/app/sum.txt
"""
_RUN_TESTS = """\
#!/bin/sh
# Grades /app; writes 1 or 0 to /logs/verifier/reward.txt.
mkdir -p /logs/verifier
if python3 -I -B -m unittest discover -v -s /tests -p 'test_*.py'; then
  echo 1 >/logs/verifier/reward.txt
else
  echo 0 >/logs/verifier/reward.txt
fi
"""
_TESTS = '''\
"""Hidden tests: one property each. The expected answer stands here, not in a file that the agent can change."""

import unittest
from pathlib import Path

NUMBERS = "12\\n7\\n-3\\n40\\n"


class Sum(unittest.TestCase):
    def test_the_sum_is_right(self):
        self.assertEqual(Path("/app/sum.txt").read_text(), "56\\n")

    def test_the_numbers_are_as_they_were(self):
        self.assertEqual(Path("/app/numbers.txt").read_text(), NUMBERS)


if __name__ == "__main__":
    unittest.main()
'''
_CHEAT = """\
#!/bin/sh
# Makes the numbers fit a convenient sum instead of adding them up.
echo 0 >/app/numbers.txt
echo 0 >/app/sum.txt
"""
_FILES = {
    "instruction.md": _INSTRUCTION,
    "environment/Dockerfile": _DOCKERFILE,
    "environment/setup.sh": _SETUP,
    "environment/files/numbers.txt": "12\n7\n-3\n40\n",
    "solution/solve.sh": _SOLUTION,
    "tests/test.sh": _RUN_TESTS,
    "tests/test_outputs.py": _TESTS,
    "cheats/change-the-input.sh": _CHEAT,
}


def start_task(name: str, parent: Path, *, organisation: str | None, category: str, difficulty: str) -> Path:
    """Write the example under this name and return its folder. Raises UsageError for a bad name, one that is taken,
    and a parent that cannot be written into."""
    for part in (name, organisation):
        if part is not None and not _NAME.fullmatch(part):
            raise UsageError(f"{part!r} cannot be a task's name", hint="use letters, digits, dots, dashes, underscores")
    if difficulty not in DIFFICULTIES:
        raise UsageError(f"{difficulty!r} is no difficulty; there is: {', '.join(DIFFICULTIES)}")
    folder = parent / name
    document = _document(f"{organisation}/{name}" if organisation else None, category, difficulty)
    files = {"task.toml": tomli_w.dumps(document), **_FILES}
    tree = FileTree.of(
        TreeFile.inline(path, text.encode(), executable=path.endswith(".sh")) for path, text in files.items()
    )
    try:
        if folder.exists():
            raise UsageError(f"{folder} exists", hint="choose another name or another --out")
        folder.mkdir(parents=True)
        tree.write_to(folder)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}", hint="choose another --out") from error
    return folder


def _document(package: str | None, category: str, difficulty: str) -> dict[str, object]:
    return {
        "schema_version": "1.4",
        **({"task": {"name": package, "description": "Add up the numbers in a file."}} if package else {}),
        "metadata": {
            "difficulty": difficulty,
            "category": category,
            "tags": ["example"],
            "termarena": {"requires": ["python3"], "setup": "setup.sh"},
        },
        "agent": {"timeout_sec": 600.0},
        "verifier": {"timeout_sec": 60.0},
        "environment": {
            "build_timeout_sec": 600.0,
            "cpus": 1,
            "memory_mb": 512,
            "storage_mb": 1024,
            "network_mode": "no-network",
            "workdir": "/app",
        },
    }
