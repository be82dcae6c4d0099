"""Lines that cannot be done again for want of a program: remarks to viewers, and programs that Debian does not have.

They are left out, and told. What depended on them shows in the replay, which must be like the recording all the same.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from termarena.forge.environment import BUILTINS
from termarena.forge.packages import package_index
from termarena.forge.steps import Role
from termarena.shell.effects import INSTALLERS, Effect
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.steps import Step

__all__ = ["strangers_in", "without_strangers"]

LEAST_REMARK: Final = 3
LEAST_SMALL_WORDS: Final = 2
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*[.,:;!?]*|[A-Za-z]+://\S+")
_SMALL_WORDS: Final = words(
    "a an and are as at be by can for from has have here how i in is it let's my now of on or our so that the then"
    " there this to us we what will with you your"
)
_VERBS: Final = words(
    "check cut find finger get join kill last less let look make more mount open paste pick play read run see set"
    " shift show sort split start test time touch type wait watch what which who write"
)
"""Programs whose names begin sentences, too."""
_STRANGE: Final = "calls a program that Debian does not have: "


def without_strangers(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps; remarks do nothing, and what calls a program from nowhere is dropped."""
    if any(name in INSTALLERS for step in steps if step.effect is Effect.REACHES for name in step.names):
        known: frozenset[str] | None = None  # what was installed may bring anything
    else:
        known = frozenset(name for step in steps for name in (*step.line.functions, *_aliases(step)))
    return tuple(_judged(step, known) for step in steps)


def strangers_in(steps: Sequence[Step]) -> tuple[str, ...]:
    """The programs for whose sake steps were dropped."""
    return tuple(
        dict.fromkeys(step.reason.removeprefix(_STRANGE) for step in steps if step.reason.startswith(_STRANGE))
    )


def _judged(step: Step, known: frozenset[str] | None) -> Step:
    if step.role not in (Role.SOLVE, Role.READ) or not step.line.is_sound:
        return step
    strange = [name for name in step.names if not _is_known(name, step)]
    if _is_remark(step, is_strange=bool(strange)):
        return replace(step.cast_as(Role.DROPPED, "is a remark"), effect=Effect.NOTHING)
    if known is None or step.role is not Role.SOLVE or not (left := [name for name in strange if name not in known]):
        return step
    return step.cast_as(Role.DROPPED, _STRANGE + left[0])


def _is_known(name: str, step: Step) -> bool:
    is_path = any("/" in word[0] for word in (simple.bare for simple in step.line.simples) if word)
    return is_path or not name or name in BUILTINS or name in package_index() or not re.fullmatch(r"[\w.+-]+", name)


def _is_remark(step: Step, *, is_strange: bool) -> bool:
    """A line of plain words that printed nothing: no program of its first word, or words that only sentences have."""
    said = step.text.split()
    if step.exit_status is not None or step.output.strip() or not all(map(_WORD.fullmatch, said)):
        return False
    small = sum(word.strip(".,:;!?").lower() in _SMALL_WORDS for word in said)
    is_sentence = small >= LEAST_SMALL_WORDS and said[0].lower() in _VERBS
    return len(said) >= LEAST_REMARK and (is_strange or is_sentence)


def _aliases(step: Step) -> list[str]:
    return [
        word.partition("=")[0] for simple in step.line.simples if simple.name == "alias" for word in simple.words[1:]
    ]
