"""The draft of a task: what synthesis makes of a session, and what the later stages mend in it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from termarena.core.errors import RecordingRefused
from termarena.forge.dating import archive_of, versions_on
from termarena.forge.environment import commands_of, commands_within, inputs_shown
from termarena.forge.installs import installed_by
from termarena.forge.linking import linked_to
from termarena.forge.places import places_of
from termarena.forge.repositories import clone_of
from termarena.forge.script import inputs_script, solution_script
from termarena.forge.steps import Role, resolve, steps_of
from termarena.forge.strangers import strangers_in, without_strangers
from termarena.forge.transcript import public_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.forge.dating import PackageRules
    from termarena.forge.installs import Installed
    from termarena.forge.places import Places
    from termarena.forge.repositories import Clone, Repository
    from termarena.forge.showing import InputFile
    from termarena.forge.steps import Step
    from termarena.forge.transcript import Facts, Transcript

__all__ = ["Draft", "on_its_day", "synthesize"]

BASE_IMAGE: Final = "debian:bookworm-slim"
"""Of the release that the index of commands and packages is made from."""
LONGEST_SLUG: Final = 48
MOST_COMMANDS: Final = 200
_BARE: Final = re.compile(r"[\w.-]+(?:\[[\w,-]+\])?")
"""The name of a Python package, without a version."""
_NO_SLUG: Final = re.compile(r"[^a-z0-9]+")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]{5,20}(?: ?UTC|Z|[+-][\d:]{4,5})?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Draft:
    """A task in the making. `steps` are all commands of the session, each in its role."""

    id: str
    title: str
    source: str
    """The recording's address, or the name of its file: where that lies is nobody's business."""
    digest: str
    """Of the recording."""
    places: Places
    steps: tuple[Step, ...]
    inputs: tuple[InputFile, ...] = ()
    """Files that were there before the session, as far as it shows them."""
    repositories: tuple[Repository, ...] = ()
    """What the session cloned, once it is fetched."""
    dated: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python packages on the recording's day, where an index told them."""
    archive: str | None = None
    """Where Debian's packages of that day are."""
    linked: Clone | None = None
    """The repository that the recording lies in, if the session may have worked in it."""
    unlinked: str | None = None
    """Why it is not done again in there."""
    facts: Facts | None = None
    cols: int = 80
    rows: int = 24
    base_image: str = BASE_IMAGE
    licence: str | None = None
    """Of the recording; None is unknown."""
    is_on_image: bool = False
    """Whether it takes programs that this machine does not have, so that its image is built instead."""

    @property
    def workdir(self) -> str:
        """Where the session begins."""
        return self.places.workdir

    @property
    def solution(self) -> str:
        """`solve.sh`."""
        return solution_script(self.steps, self.workdir)

    @property
    def preparation(self) -> str | None:
        """What makes the inputs that the session wrote out itself."""
        return inputs_script(self.steps, self.workdir)

    @property
    def clones(self) -> tuple[Clone, ...]:
        """The repositories that the session fetched."""
        fetched = [step for step in self.steps if step.role is Role.FETCHED]
        found = (clone_of(step.line.simples[0].words, step.cwd) for step in fetched)
        return tuple(clone for clone in found if clone is not None)

    @property
    def recorded_at(self) -> str | None:
        """The day of the recording, in ISO 8601; None where what is said about it is no day."""
        said = self.facts.recorded_at if self.facts else None
        return said if said is not None and _DAY.fullmatch(said) else None

    @property
    def installed(self) -> Installed:
        """What the session installed itself."""
        return installed_by(self.steps, self.recorded_at, self.dated)

    @property
    def requires(self) -> tuple[str, ...]:
        """The programs that solution, inputs and tests take."""
        return tuple(sorted({*commands_of(self.steps), *(("git",) if self.repositories else ())}))

    @property
    def called(self) -> tuple[str, ...]:
        """Those, and the programs that its scripts and recipes of make seem to call."""
        inner = commands_within(self.steps, self.inputs, by_make="make" in self.requires)
        return tuple(sorted({*self.requires, *inner}))


def synthesize(transcript: Transcript) -> Draft:
    """Slice a session into a draft. Raises `RecordingRefused` (gate `synthesize`), with the reason."""
    if not transcript.commands:
        raise RecordingRefused("synthesize", "no command could be read from it")
    if len(transcript.commands) > MOST_COMMANDS:
        raise RecordingRefused("synthesize", f"it has {len(transcript.commands)} commands; at most {MOST_COMMANDS}")
    places = places_of(transcript)
    first = without_strangers(steps_of(transcript.commands, places))
    try:
        steps = resolve(first, places.workdir)
    except RecordingRefused as error:
        if strangers := strangers_in(first):
            done_by = f"its work is done by {', '.join(strangers[:3])}, which Debian does not have"
            raise RecordingRefused("synthesize", done_by) from error
        raise
    return Draft(
        id=_task_id(transcript),
        title=" ".join(transcript.title.split()),
        source=public_name(transcript.source),
        digest=transcript.digest,
        places=places,
        steps=steps,
        inputs=inputs_shown(steps),
        linked=linked_to(transcript.repository, steps, places.workdir),
        facts=transcript.facts,
        cols=min(max(transcript.cols, 20), 500),
        rows=min(max(transcript.rows, 5), 200),
        licence=transcript.licence,
    )


def on_its_day(draft: Draft, rules: PackageRules) -> Draft:
    """The draft with packages of its recording's day, as far as the settings say who knows them."""
    day = draft.recorded_at
    asked = [name for one in draft.repositories for name in one.needs.python if _BARE.fullmatch(name)]
    dated = versions_on(rules, dict.fromkeys([*draft.installed.undated, *asked]), day)
    return replace(draft, dated=dated, archive=archive_of(rules, day))


def _task_id(transcript: Transcript) -> str:
    slug = _NO_SLUG.sub("-", transcript.title.lower()).strip("-")[:LONGEST_SLUG].strip("-") or "session"
    return f"{slug}-{hashlib.sha256(transcript.digest.encode()).hexdigest()[:8]}"
