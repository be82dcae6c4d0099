"""`tests/test.sh` for Harbor's sake: the same grade as TermArena gives, in POSIX shell and awk, for suites that do
not write a reward file.

TermArena itself runs the suite's own entry and reads the verdict on the host; it never runs these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.tasks.model import Tests

__all__ = ["SUITE", "adapter"]

SUITE = "suite"

# Read whole before it runs (the function), because the suite may hold a test.sh of its own that lands on this one.
_FRAME = """#!/bin/sh
# Runs the tests in /tests/{suite} as the task's first format meant them, and writes the reward file that Harbor reads.
main() {{
  mkdir -p /logs/verifier
  cp -R /tests/{suite}/. /tests/
  shell=$(command -v bash || command -v sh)
  log=/logs/verifier/suite-output.txt
  "$shell" /tests/{entry} >"$log" 2>&1
  status=$?
  cat "$log"
{verdict}
}}
main "$@"
exit
"""

_EXIT_STATUS = """  if [ "$status" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt"""

# No summary means no verdict: then no reward file is written, and Harbor reports an error instead of a zero.
_PYTEST = """  awk '
    /^=+ short test summary info =+$/ { seen = 1; next }
    seen && /^(PASSED|XFAIL|SKIPPED) / { good++ }
    seen && /^(FAILED|XPASS|ERROR) / { bad++ }
    END { if (seen) print ((good > 0 && bad == 0) ? 1 : 0) > "/logs/verifier/reward.txt" }
  ' "$log" """.rstrip()

_BETWEEN = """  awk '
    /{mark} results starts? here/ {{ inside = 1; text = ""; seen = 1; next }}
    /{mark} results ends? here/ {{ inside = 0; next }}
    inside {{ gsub(/^[ \\t]+|[ \\t\\r]+$/, ""); text = text $0 }}
    END {{ if (seen) print (text == "{passed}" ? 1 : 0) > "/logs/verifier/reward.txt" }}
  ' "$log" """.rstrip()

_SWELANCER = """  reward=/logs/verifier/reward.txt
  if grep -qi -e 'swe lancer success' -e 'user_tool.*completed' "$log"; then echo 1 >"$reward"
  elif grep -qi 'swe lancer failure' "$log"; then echo 0 >"$reward"; fi"""

_VERDICTS = {
    "exit_status": _EXIT_STATUS,
    "pytest": _PYTEST,
    "swebench": _BETWEEN.format(mark="SWEBench", passed="PASSED"),
    "sweperf": _BETWEEN.format(mark="SWE-Perf", passed="PASSED"),
    "mlebench": _BETWEEN.format(mark="MLEBench", passed="ALL TESTS PASSED"),
    "swelancer": _SWELANCER,
    "reward_file": "  return 0",
    "reward_pipe": "  return 0",
}


def adapter(tests: Tests) -> str:
    """The script for these tests."""
    return _FRAME.format(suite=SUITE, entry=tests.entry, verdict=_VERDICTS[tests.verdict])
