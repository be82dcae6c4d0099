"""Mutants of scripts and of solutions: which there are, and that each is still a script."""

from __future__ import annotations

import subprocess

from termarena.proof.constants import numbers_in, with_number
from termarena.proof.mutants import Mutant, mutants_of, mutants_of_solution
from termarena.tasks import load_dataset
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.model import Solution

SCRIPT = """\
#!/bin/sh
set -eu
cat >/app/list.txt <<'EOF'
one 1
EOF
for name in a b; do
  echo "$name" >>/app/names.txt
done
cp "$0" /app/copy && chmod 755 /app/copy
if [ -f /app/copy ]; then rm /app/old; fi
sort -r /app/names.txt | head -n 3 >/app/top.txt
"""


def _of(operator: str) -> list[Mutant]:
    return [one for one in mutants_of(SCRIPT) if one.operator == operator]


def test_every_statement_is_left_out_once_and_no_condition_is() -> None:
    assert [(one.line, one.what.removeprefix("left out: ")) for one in _of("left-out")] == [
        (2, "set -eu"),
        (3, "cat >/app/list.txt <<'EOF' …"),
        (6, "for name in a b; do …"),
        (7, 'echo "$name" >>/app/names.txt'),
        (9, 'cp "$0" /app/copy && chmod 755 /app/copy'),
        (10, "if [ -f /app/copy ]; then rm /app/old; fi"),
        (10, "rm /app/old"),
        (11, "sort -r /app/names.txt | head -n 3 >/app/top.txt"),
    ]


def test_every_prefix_is_there_but_the_whole() -> None:
    assert [one.line for one in _of("prefix")] == [2, 3, 6, 9, 10]
    assert _of("prefix")[1].script == SCRIPT[: SCRIPT.index("EOF\nfor")] + "EOF\n"


def test_outputs_are_emptied_or_left_as_they_were() -> None:
    assert [(one.line, one.what.split()[0]) for one in _of("emptied")] == [
        (3, "/app/list.txt"),
        (7, "/app/names.txt"),
        (11, "/app/top.txt"),
    ]
    assert "touch /app/list.txt\nfor name" in _of("stale")[0].script


def test_constants_of_commands_and_of_documents_are_changed() -> None:
    changed = {one.script for one in _of("constant")}
    assert SCRIPT.replace("head -n 3", "head -n 4") in changed
    assert SCRIPT.replace("one 1", "one 2") in changed
    assert SCRIPT.replace("chmod 755", "chmod 756") in changed


def test_a_path_gets_another_name() -> None:
    changed = {one.script for one in _of("wrong-path")}
    assert SCRIPT.replace("3 >/app/top.txt", "3 >/app/top.txt.other") in changed
    assert SCRIPT.replace("chmod 755 /app/copy", "chmod 755 /app/copy.other") in changed


def test_what_echo_writes_is_changed() -> None:
    found = [one for one in mutants_of("printf 'Hello, world!\\n' >/app/hello.txt\n") if one.operator == "constant"]
    assert [one.script for one in found] == ["printf 'hello, world!\\n' >/app/hello.txt\n"]


def test_a_script_that_nests_beyond_reading_has_none() -> None:
    assert mutants_of("(" * 3000 + "ls" + ")" * 3000) == ()


def test_a_script_that_does_not_parse_has_none() -> None:
    assert mutants_of("if then (\n") == ()


def test_every_mutant_of_every_sample_is_a_script_of_its_own() -> None:
    files = [task.solution.files.get("solve.sh") for task in load_dataset("samples") if task.solution]
    of_each = [mutants_of(text) for text in (SCRIPT, *(file.read().decode() for file in files if file))]
    assert sum(map(len, of_each)) > 100
    for mutants in of_each:
        scripts = [one.script for one in mutants]
        assert len(scripts) == len(set(scripts))
        for script in scripts:
            assert subprocess.run(["/bin/bash", "-n"], input=script.encode(), check=False).returncode == 0, script


def test_files_beside_the_script_are_mutated_too() -> None:
    program = "# 12 is no code\nLIMIT = 5\nprint(LIMIT)\n"
    files = [TreeFile.inline("solve.sh", b"cp x.py /app/\n"), TreeFile.inline("x.py", program.encode())]
    found = mutants_of_solution(Solution(files=FileTree.of(files), entry="solve.sh"))
    beside = [one for one in found if one.file == "x.py"]
    assert [one.name for one in beside] == ["emptied x.py:1", "prefix x.py:1", "constant x.py:2"]
    changed = beside[2].solution.files.get("x.py")
    assert changed is not None
    assert changed.read().decode() == program.replace("5", "6")


def test_numbers_that_change_nothing_are_left_alone() -> None:
    text = "exit 2\nreturn(1)\necho x >&2\nLIMIT 1\nsys.path.insert(0, x)\n[0-9]{1,5}\nrow = 7  # 8\n"
    assert [one.digits for one in numbers_in(text)] == ["7"]


def test_a_solution_by_keystrokes_has_none() -> None:
    assert mutants_of_solution(Solution()) == ()


def test_a_number_that_no_query_looks_at_is_left_alone() -> None:
    text = "SELECT EXISTS (SELECT 1 FROM a) AND b = 3 ORDER BY c LIMIT 1"
    assert [one.digits for one in numbers_in(text, suffix="sql")] == ["3"]


def test_a_large_factor_is_doubled_and_a_limit_is_one_higher() -> None:
    text = "wait = ms / 1000; most = 1000; pair = 2 * x"
    assert [with_number(text, one) for one in numbers_in(text)] == [
        "wait = ms / 2000; most = 1000; pair = 2 * x",
        "wait = ms / 1000; most = 1001; pair = 2 * x",
        "wait = ms / 1000; most = 1000; pair = 3 * x",
    ]
