"""Any content gives findings, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.folders import HARBOR, write_folder
from termarena.core.errors import TaskFormatError
from termarena.tasks import FileTree, Task, TreeFile, load_task, model
from termarena.tasks.lint import lint
from termarena.tasks.lint.view import LIMIT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

# Pieces that the rules look for, so that random text reaches beyond their first look.
PIECES = [
    *(
        "FROM a",
        "RUN ",
        "COPY ",
        "ADD ",
        "--from=x ",
        "<<EOF",
        "<<-'E'",
        "\\\n",
        "\n",
        "\r\n",
        "# ",
        '["',
        '"]',
        "$",
        "${A:-",
    ),
    *(
        "pip install ",
        "apt-get ",
        "install ",
        "curl ",
        "https://",
        "git clone ",
        "sleep ",
        "|| true",
        "; ",
        "&& ",
        "$?",
    ),
    *("set -e", "reward.txt", "reward.json", "echo 1 > ", "/app/", "/tests/", "x.txt", "open(", "Path(", "'", '"', ")"),
    *(
        "import random\n",
        "random.random()",
        "pytest.skip(",
        "time.sleep(",
        "datetime.now()",
        "== 2026",
        "assert not ",
        "if ",
    ),
    *(
        "def f():\n",
        "    ",
        "f'{x}'",
        " / ",
        "os.path.join(",
        "expected",
        "answer",
        "<<<<<<< ",
        ">>>>>>> ",
        "\0",
        "\ufeff",
        "é",
    ),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=60).map("".join)
CONTENTS = st.one_of(TEXTS.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=400))
NAMES = st.sampled_from(
    ["Dockerfile", "a/Dockerfile", "setup.sh", "tests/test.sh", "answers.txt", "x", "docker-compose.yaml"]
)


def _tree(files: dict[str, bytes]) -> FileTree:
    return FileTree.of(TreeFile.inline(name, content) for name, content in files.items())


@pytest.mark.slow
@settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    instruction=TEXTS,
    environment=st.dictionaries(NAMES, CONTENTS, max_size=4),
    tests=CONTENTS,
    checks=CONTENTS,
    solution=CONTENTS,
)
def test_any_bytes_give_findings_and_nothing_else(
    instruction: str, environment: dict[str, bytes], tests: bytes, checks: bytes, solution: bytes
) -> None:
    compose = "docker-compose.yaml" if "docker-compose.yaml" in environment else None
    task = Task(
        id="any",
        instruction=instruction,
        environment=model.Environment(context=_tree(environment), compose=compose),
        tests=model.Tests(files=_tree({"test.sh": tests, "test_outputs.py": checks})),
        solution=model.Solution(files=_tree({"solve.sh": solution}), entry="solve.sh"),
        provenance=model.Provenance(format="harbor", path="/nowhere"),
    )
    found = lint(task)
    assert {finding.rule for finding in found} >= {"no-agent-timeout"}
    assert lint(task) == found


HOSTILE = {
    "quotes": '"\\"' * 90_000,
    "here-documents that never close": "RUN <<A\n" * 30_000,
    "shell here-documents that never close": "cat <<A$\ncat <<B\n" * 10_000,
    "one long line": "x" * 250_000,
    "options": "apt " + "-a " * 80_000,
    "assignments": "a=" * 120_000,
    "curl after curl": "curl " * 50_000,
    "variables": "FROM ${a:-" * 25_000,
    "paths": "'/app/a" * 35_000,
    "joins": "join(" + "a," * 100 + " " * 200_000,
    "divisions": "/ 'a.b'" * 35_000,
    "sums of paths": "x = open('/app/q0')" + "".join(f" + open('/app/q{n}')" for n in range(1, 900)),
    "calls in calls": "x = open('/app/qq')" + ".a()" * 50_000,
    "sleeps in loops": "import time\nfor x in y:\n" + "    time.sleep(1)\n" * 12_000,
    "requests": "requests.get('https://example.com/')\n" * 6_000,
    "clocks on one line": "datetime.now();" * 16_000,
    "copies": "FROM a:1\n" + "COPY tests/x a*b*c*d*e* /x\n" * 8_000,
    "answers": " /expectedexpected" * 14_000,
    "slashes": "/" * 250_000,
    "brackets": "[" * 250_000,
    "carriage returns": "\r" * 250_000,
    "marks": "\n<<<<<<< \n>>>>>>> " * 10_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_text_takes_long(kind: str) -> None:
    """Each text is Dockerfile, tests, solution and instruction at once."""
    content = HOSTILE[kind].encode()[:LIMIT_BYTES]
    task = Task(
        id="slow",
        instruction=HOSTILE[kind][:100_000],
        environment=model.Environment(context=_tree({"Dockerfile": content, "setup.sh": content, "a" * 200: b""})),
        tests=model.Tests(files=_tree({"test.sh": content, "test_outputs.py": content})),
        solution=model.Solution(files=_tree({"solve.sh": content}), entry="solve.sh"),
        provenance=model.Provenance(format="harbor", path="/nowhere"),
    )
    start = time.process_time()
    lint(task)
    assert time.process_time() - start < 10


@pytest.mark.slow
def test_a_huge_file_costs_no_more_than_its_first_part(tmp_path: Path) -> None:
    lint(load_task(write_folder(tmp_path / "first", HARBOR)))  # what is built once per process is not its cost
    folder = write_folder(tmp_path / "huge", HARBOR)
    for name in ("tests/huge.sh", "solution/huge.py", "environment/huge.txt"):
        with (folder / name).open("wb") as file:
            file.truncate(60 << 20)
    task = load_task(folder)
    tracemalloc.start()
    try:
        found = lint(task)
        _, peak = tracemalloc.get_traced_memory()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {one.file for one in found if one.rule == "large-file"} == {
        "tests/huge.sh",
        "solution/huge.py",
        "environment/huge.txt",
    }
    assert peak < 8 << 20
    assert kept < 1 << 20


def test_a_folder_that_stops_being_a_task_is_the_loaders_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, HARBOR)
    task = load_task(folder)
    (folder / "environment/Dockerfile").unlink()
    (folder / "environment").rmdir()
    (folder / "environment").write_text("a file now")
    with pytest.raises(TaskFormatError):
        lint(task)
