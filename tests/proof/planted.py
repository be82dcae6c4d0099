"""Bad tasks, made by a program: a good one with one known fault each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from support.tasks import Made

INSTRUCTION = """\
The file /app/numbers.txt holds one whole number per line.

Write the sum of all of them to /app/sum.txt, digits only, and every number that is even to /app/even.txt, one per line
and in any order. Leave /app/numbers.txt as it is.
"""
SETUP = """\
mkdir -p /app
printf '12\\n7\\n30\\n41\\n' >/app/numbers.txt
"""
SOLUTION = """\
set -eu
total=0
while read -r number; do
  total=$((total + number))
done </app/numbers.txt
echo "$total" >/app/sum.txt
grep -E '[02468]$' /app/numbers.txt >/app/even.txt
"""
TESTS = """\
import unittest
from pathlib import Path


class Numbers(unittest.TestCase):
    def test_the_sum(self):
        self.assertEqual(Path("/app/sum.txt").read_text(), "90\\n")

    def test_the_even_ones(self):
        self.assertEqual(sorted(Path("/app/even.txt").read_text().splitlines()), ["12", "30"])

    def test_the_input_is_as_it_was(self):
        self.assertEqual(Path("/app/numbers.txt").read_text(), "12\\n7\\n30\\n41\\n")
"""
RUN = """\
#!/bin/sh
reward=0
if python3 -I -B -m unittest discover -v -s /tests -p 'test_*.py'; then reward=1; fi
echo $reward >/logs/verifier/reward.txt
"""
GRADER = """\
from pathlib import Path

is_right = Path("/app/sum.txt").read_text() == "90\\n" and Path("/app/even.txt").read_text() == "12\\n30\\n"
print("SUCCESS" if is_right else "FAILURE")
"""
GOOD = Made(
    solution=SOLUTION,
    tests=RUN,
    setup=SETUP,
    files={"instruction.md": INSTRUCTION, "tests/test_outputs.py": TESTS},
)


@dataclass(frozen=True)
class Planted:
    """One bad task: what was done to the good one, and what is to be found."""

    name: str
    made: Made
    rules: frozenset[str]
    """Any of these names the fault."""


def _files(**changed: str) -> dict[str, str]:
    names = {"instruction": "instruction.md", "tests": "tests/test_outputs.py"}
    return {**GOOD.files, **{names.get(name, name): text for name, text in changed.items()}}


def _with(name: str, rules: str, *, files: dict[str, str] | None = None, **made: object) -> Planted:
    changed = replace(GOOD, files=files or GOOD.files, **made)  # type: ignore[arg-type]  # fields of Made
    return Planted(name, changed, frozenset(rules.split()))


def _tests(name: str, rules: str, old: str, new: str) -> Planted:
    assert old in TESTS
    return _with(name, rules, files=_files(tests=TESTS.replace(old, new)))


def _solution(name: str, rules: str, old: str, new: str) -> Planted:
    assert old in SOLUTION
    return _with(name, rules, solution=SOLUTION.replace(old, new))


_SUM = 'self.assertEqual(Path("/app/sum.txt").read_text(), "90\\n")'
_EVEN = 'self.assertEqual(sorted(Path("/app/even.txt").read_text().splitlines()), ["12", "30"])'
_IMPORT = "import unittest\n"
PLANTED = (
    # The solution.
    _solution("wrong-solution", "unsolvable", 'echo "$total"', "echo 91"),
    _solution("solution-stops", "unsolvable", "total=0\n", "exit 0\n"),
    _solution("needs-a-missing-tool", "unsolvable", "grep -E", "no-such-tool"),
    _solution(
        "flaky-by-chance",
        "flaky fragile",
        "set -eu\n",
        '[ "$(($(date +%N | cut -c7-8 | sed s/^0//) % 2))" = 0 ] || exit 1\n',
    ),
    _solution("needs-a-time-zone", "fragile", "set -eu\n", '[ "$(date +%z)" = +0000 ] || exit 1\n'),
    _solution(
        "needs-a-host-name", "fragile", "set -eu\n", '[ "$(cat /proc/sys/kernel/hostname)" = sandbox ] || exit 1\n'
    ),
    _solution("needs-a-locale", "fragile", "set -eu\n", '[ "${LC_ALL:-}" != C ] || exit 1\n'),
    _with("slow-solution", "tight-limits", solution="sleep 3\n" + SOLUTION, agent_s=3.6),
    # The tests.
    _tests("expects-another-sum", "unsolvable", '"90\\n"', '"91\\n"'),
    _with("always-passes", "trivial", tests="#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"),
    _with(
        "solved-from-the-start", "trivial", setup=SETUP + "echo 90 >/app/sum.txt\nprintf '12\\n30\\n' >/app/even.txt\n"
    ),
    _with("no-verdict", "grader-broken unsolvable", tests="#!/bin/sh\npython3 -I -B /tests/test_outputs.py\n"),
    _with("verdict-only-when-solved", "grader-broken", tests=RUN.replace("echo $reward", "[ $reward = 1 ] && echo 1")),
    _tests("only-looks-whether-it-is-there", "weak-tests", _SUM, 'self.assertTrue(Path("/app/sum.txt").exists())'),
    _with(
        "asks-for-more-than-it-tests", "weak-tests", files=_files(tests=TESTS.replace(_EVEN, "self.assertTrue(True)"))
    ),
    _tests(
        "only-looks-at-the-size", "weak-tests", _SUM, 'self.assertGreater(len(Path("/app/sum.txt").read_text()), 1)'
    ),
    _tests("wants-one-order", "over-specified", "sorted(Path", "list(Path"),
    _tests(
        "wants-one-mode",
        "over-specified",
        _SUM,
        _SUM + '\n        self.assertEqual(Path("/app/sum.txt").stat().st_mode & 0o777, 0o644)',
    ),
    _tests(
        "forbids-other-files",
        "over-specified",
        _SUM,
        _SUM + '\n        self.assertEqual([p for p in Path("/root").iterdir() if "notes" in p.name], [])',
    ),
    # What an agent could do instead.
    _with("modules-of-the-agent", "hackable", tests=RUN.replace("-I -B ", "-B ")),
    _with(
        "runs-what-the-agent-left",
        "hackable",
        tests=RUN.replace(
            "reward=0\n", "reward=0\n[ -f /app/conftest.py ] && python3 -I -B /tests/ok.py && reward=1\n"
        ),
        files={**GOOD.files, "tests/ok.py": ""},
    ),
    _with(
        "missing-is-fine",
        "hackable weak-tests",
        files=_files(
            tests=TESTS.replace(_SUM, 'self.assertIn(Path("/app/sum.txt").read_text(), ("", "90\\n"))').replace(
                _EVEN, 'self.assertIn(Path("/app/even.txt").read_text(), ("", "12\\n30\\n"))'
            )
        ),
    ),
    # What an agent could find.
    _with(
        "solution-in-the-image",
        "leak",
        setup=SETUP + 'mkdir -p /opt/x; cp "$(dirname "$0")/x.txt" /opt/x/\n',
        files={**GOOD.files, "environment/x.txt": "#!/bin/sh\n" + SOLUTION},
    ),
    _with(
        "tests-in-the-image",
        "leak",
        setup=SETUP + 'cp "$(dirname "$0")/expected.py" /app/.cache.py\n',
        files={**GOOD.files, "environment/expected.py": TESTS},
    ),
    _with(
        "a-small-answer-by-its-name",
        "leak",
        setup=SETUP + "mkdir -p /opt/x; printf '12\\n30\\n' >/opt/x/expected_even\n",
    ),
    _with(
        "grader-in-the-image",
        "hackable",
        setup=SETUP + 'cp "$(dirname "$0")/verify.py" /app/verify.py\n',
        tests="#!/bin/sh\npython3 -I -B /app/verify.py | grep -q SUCCESS && reward=1\n"
        "echo ${reward:-0} >/logs/verifier/reward.txt\n",
        files={**GOOD.files, "environment/verify.py": GRADER},
    ),
    _with("tests-folder-from-the-start", "leak", setup=SETUP + "mkdir -p /tests; echo later >/tests/readme\n"),
    _with(
        "instruction-is-a-recipe",
        "leak",
        files=_files(
            instruction=INSTRUCTION
            + "\nUse `grep -E '[02468]$' /app/numbers.txt >/app/even.txt` and `echo \"$total\" >/app/sum.txt`.\n"
        ),
    ),
)
