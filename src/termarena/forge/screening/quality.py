"""How much a recording is worth as a task: the published rubric's three axes made countable, and what is around it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from termarena.forge.screening.findings import Quality
from termarena.forge.transcript import REPOSITORY
from termarena.shell.effects import changes_state
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.transcript import Command, Transcript
    from termarena.shell.calls import Called

__all__ = ["quality_of"]

HIGHEST: Final = 3
TAIL: Final = 4000
"""Programs say at the end how it went."""
_FAILURE: Final = re.compile(
    r"(?mi)^(?:\S+: )?(?:error|fatal|panic|traceback)\b|command not found|no such file|permission denied|: error:"
    r"|cannot (?:open|find)"
)
_SUCCESS: Final = re.compile(
    r"(?i)\b(?:passed|success(?:ful(?:ly)?)?|complete[d]?|done|ok|identical|valid|created|built|installed|100%)\b"
)
_CHECKING: Final = words("cat ls diff cmp test head tail grep wc stat file git tree jq curl md5sum sha256sum make")
_TITLE_WORDS: Final = 3


def quality_of(transcript: Transcript, scripts: Sequence[Called]) -> Quality:
    """Score a recording; `scripts` are its shell commands taken apart, in order."""
    commands = [command for command in transcript.commands if command.shell]
    return Quality(
        alignment=_alignment(commands),
        complexity=_complexity(commands, scripts),
        signal=_signal(commands, scripts),
        context=_context(transcript),
    )


def _alignment(commands: Sequence[Command]) -> int:
    """Whether each step can be followed: surely read, ended by a known status or followed by output."""
    if not commands:
        return 0
    sure = sum(command.confidence for command in commands) / len(commands)
    told = sum(command.exit_status is not None or bool(command.output.strip()) for command in commands) / len(commands)
    return _steps(sure, 0.5, 0.7, 0.9) if told >= 0.3 else min(1, _steps(sure, 0.5, 0.7, 0.9))  # noqa: PLR2004 - a third


def _complexity(commands: Sequence[Command], scripts: Sequence[Called]) -> int:
    """How much judgement it took: changes, different programs, pipelines, mistakes that were mended."""
    calls = [call for script in scripts for call in script.calls]
    changes = sum(changes_state(call) for call in calls)
    programs = len({call.program for call in calls if call.program})
    piped = sum(bool(call.fed_by or call.sources) for call in calls)
    points = min(changes, 6) + min(programs, 8) + min(piped, 4) + 2 * min(_mended(commands), 2)
    return _steps(points, 5, 9, 13)


def _mended(commands: Sequence[Command]) -> int:
    """Commands that failed and were followed by one of the same program that did not."""
    found = 0
    for before, after in pairwise(commands):
        same = before.text.split()[:1] == after.text.split()[:1]
        found += same and _failed(before) and not _failed(after)
    return found


def _failed(command: Command) -> bool:
    if command.exit_status is not None:
        return command.exit_status != 0
    return _FAILURE.search(command.output[-TAIL:]) is not None


def _signal(commands: Sequence[Command], scripts: Sequence[Called]) -> int:
    """Whether success is seen: the end succeeds, the result is looked at, programs say so."""
    working = [command for command in commands if command.text.split()[:1] not in (["exit"], ["logout"], ["clear"])]
    if not working:
        return 0
    last = working[-1]
    checks = {call.program for script in scripts[-4:] for call in script.calls} & _CHECKING
    says_so = any(_SUCCESS.search(command.output[-TAIL:]) for command in working[-4:])
    return (not _failed(last)) + bool(checks) + (says_so or last.exit_status == 0)


def _context(transcript: Transcript) -> int:
    """What tells the purpose: a title, one in words, a repository that can be fetched."""
    words = len(re.findall(r"\w{2,}", transcript.title))
    typed = "\n".join(command.text for command in transcript.commands)
    has_link = transcript.repository is not None or REPOSITORY.search(transcript.title + "\n" + typed) is not None
    has_notes = any(command.text.startswith("#") for command in transcript.commands)
    return min(HIGHEST, bool(words) + (words >= _TITLE_WORDS) + (has_link or has_notes))


def _steps(value: float, first: float, second: float, third: float) -> int:
    return (value >= first) + (value >= second) + (value >= third)
