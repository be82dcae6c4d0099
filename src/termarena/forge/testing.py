"""From facts to tests: one function per fact, plain Python, nothing to install."""

from __future__ import annotations

import hashlib
import json
import pprint
import re
from typing import TYPE_CHECKING, Final

from termarena.forge.bench import probes_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact

__all__ = ["files_of_tests"]

_NO_NAME: Final = re.compile(r"\W+")
_ENTRY: Final = """\
#!/bin/sh
# Grades what was left; writes 1 or 0 to /logs/verifier/reward.txt. Nothing is installed here.
mkdir -p /logs/verifier
exec python3 -I -B /tests/test_state.py
"""
_HEAD: Final = '''\
"""What must hold when the work is done: one test per fact. termarena-canary {canary}"""

import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "/tests")

from probes import {probes}

'''


def files_of_tests(draft: Draft, facts: Sequence[Fact]) -> Mapping[str, str]:
    """The files of `tests/`, by name. The canary is the task's own: whoever trained on the file can be found."""
    canary = hashlib.sha256(f"canary {draft.digest}".encode()).hexdigest()[:32]
    probes = ", ".join(sorted({"check_all", *(fact.probe for fact in facts)}))
    tests = "\n".join(_test(number, fact) for number, fact in enumerate(facts, 1))
    state = f"{_HEAD.format(canary=canary, probes=probes)}{tests}\n\nsys.exit(check_all(globals()))\n"
    return {"test.sh": _ENTRY, "test_state.py": state, "probes.py": probes_source()}


def _test(number: int, fact: Fact) -> str:
    name = _NO_NAME.sub("_", fact.path).strip("_").lower()[:40]
    about = json.dumps(" ".join(map(str, fact.arguments)))[1:-1].replace("\\", "\\\\")[:80]
    arguments = ", ".join(repr(argument) for argument in fact.arguments)
    expected = pprint.pformat(fact.value, width=100, sort_dicts=True)
    lines = expected.replace("\n", "\n    ")
    return (
        f"\ndef test_{number:02}_{fact.probe}_{name}():\n"
        f'    """{fact.probe} of {about}"""\n'
        f"    expected = {lines}\n"
        f"    found = {fact.probe}({arguments})\n"
        f'    assert found == expected, f"expected {{expected!r:.200}}, found {{found!r:.200}}"\n'
    )
