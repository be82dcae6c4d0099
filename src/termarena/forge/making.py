"""From a transcript to an admitted task: every stage in its order, each with its gate."""

from __future__ import annotations

import asyncio
import glob
import json
import shutil
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from termarena.core.errors import CapabilityMissing, RecordingRefused, RecordingTooLong, TaskError
from termarena.forge.dating import PackageRules
from termarena.forge.describing import descriptions
from termarena.forge.draft import BASE_IMAGE, on_its_day, synthesize
from termarena.forge.facts import gather
from termarena.forge.limiting import limited
from termarena.forge.linking import works_in
from termarena.forge.model_rules import ModelRules
from termarena.forge.replay import amended, replay
from termarena.forge.repositories import RepositoryRules, fetch_repository
from termarena.forge.screening import ScreenRules, screen
from termarena.forge.script import solution_script
from termarena.forge.steps import NOT_STARTED, Role, files_of, resolve
from termarena.forge.strangers import strangers_in
from termarena.forge.taskfiles import write_environment, write_task
from termarena.forge.telling import Known, instruction
from termarena.forge.testing import files_of_tests
from termarena.forge.trials import prove

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.bench import Bench
    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact
    from termarena.forge.replay import Replay, Replayed
    from termarena.forge.repositories import Clone
    from termarena.forge.screening import Screening
    from termarena.forge.steps import Step
    from termarena.forge.transcript import Transcript
    from termarena.forge.trials import Proof
    from termarena.sandbox.staging import StartState

__all__ = ["Making", "MakingConfig", "check_proof", "evidence", "put_in_place"]

REPAIRS: Final = 3
"""How often a draft is mended after a replay before it is given up."""
_PLACING: Final = threading.Lock()
"""One recording may lie in a folder twice, and is made twice at once then."""


class MakingConfig(BaseModel):
    """Where the gates stand."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_fidelity: float = Field(0.6, ge=0, le=1)
    """A replay that is less like its recording than this is refused."""
    least_mutation_score: float = Field(0.8, ge=0, le=1)
    """Tests that tell fewer partial solutions from the whole one are refused."""
    base_image: str = BASE_IMAGE
    """What the Dockerfiles of tasks begin with: Debian 12, from wherever you have it."""
    build_images: bool = False
    """Whether a session that takes programs which this machine does not have is made on the image of its Dockerfile.
    Building it uses a network: for the packages that the session installed, and while its first files are made."""
    repositories: RepositoryRules = RepositoryRules()
    packages: PackageRules = PackageRules()
    """Where packages of the recording's day are to be had."""
    screen: ScreenRules = ScreenRules(least_commands=2, least_state_changes=0)
    """What may be made at all. Sessions that only print are wanted here: their results go to files."""
    model: ModelRules | None = None
    """Whether a language model may propose something; it never decides."""


@dataclass(slots=True)
class Making:
    """One recording on its way; what each stage found stays here, also when a later gate refuses."""

    transcript: Transcript
    bench: Bench
    workspace: Path
    """A folder for what is in the making; its maker removes it."""
    config: MakingConfig = field(default_factory=MakingConfig)
    cache: Path | None = None
    """Where fetched repositories stay; in the workspace if nowhere."""
    screening: Screening | None = None
    draft: Draft | None = None
    state: StartState | None = None
    replay: Replay | None = None
    facts: tuple[Fact, ...] = ()
    proof: Proof | None = None

    async def make(self, out: Path) -> Path:
        """Every stage; the task's folder below `out`, which is there whole or not at all.

        Raises `RecordingRefused` with the gate and the reason, `SandboxError` where a sandbox fails.
        """
        folder = await self.prove()
        assert self.draft is not None  # noqa: S101 - proving began with one
        await asyncio.to_thread(put_in_place, folder, out / self.draft.id)
        return out / self.draft.id

    def screen(self) -> Transcript:
        """Stage 3: the transcript without what is private. Raises `RecordingRefused` where it may not be used."""
        rules = self.config.screen
        try:
            self.screening = limited(rules.most_processor_s, screen, self.transcript, rules)
        except RecordingTooLong as error:
            raise RecordingRefused("screen", error.message) from error
        if not self.screening.kept or self.screening.transcript is None:
            raise RecordingRefused("screen", "; ".join(self.screening.reasons[:3]) or "it may not be passed on")
        return self.screening.transcript

    def synthesize(self) -> Draft:
        """Stage 4: the draft."""
        draft = self.draft = replace(synthesize(self.screen()), base_image=self.config.base_image)
        if draft.clones and not self.config.repositories.fetch:
            problem = f"cloning {draft.clones[0].url} needs a network beyond the machine"
            raise RecordingRefused(
                "synthesize", f"{problem}; `fetch = true` under [repositories] in forge.toml allows it"
            )
        return draft

    def _fetch(self, draft: Draft) -> Draft:
        cache, rules = self.cache or self.workspace / "repositories", self.config.repositories
        found = [fetch_repository(clone, draft.recorded_at, rules, cache) for clone in draft.clones]
        if not found and draft.linked is not None and rules.fetch:
            return _linked(draft, draft.linked, rules, cache)
        return replace(draft, repositories=tuple(found))

    async def reproduce(self) -> Draft:
        """Stage 5: the start state, and the session again on it; what the replay shows mends the draft, a few times."""
        draft = await asyncio.to_thread(self.synthesize)
        draft = await asyncio.to_thread(self._fetch, draft)
        draft = await asyncio.to_thread(on_its_day, draft, self.config.packages)
        for attempt in range(REPAIRS):
            draft, state = await self._start(draft, self.workspace / f"draft-{attempt}")
            again = await replay(state, draft)
            self.draft, self.state, self.replay = draft, state, again
            mended = _mended(draft, again)
            if mended == draft:
                break
            draft = mended
        _check_fidelity(again, self.config)
        if complaint := await self.bench.complaint(state, draft.solution):
            raise RecordingRefused("reproduce", f"the solution is no sound script: {complaint}")
        return draft

    async def _start(self, draft: Draft, folder: Path) -> tuple[Draft, StartState]:
        """The draft's start state, on the machine's own programs or else on an image, if that may be built."""
        try:
            return draft, await _built(self.bench, draft, folder)
        except CapabilityMissing as error:
            if draft.is_on_image or not self.config.build_images:
                hint = "" if draft.is_on_image else "; `build_images = true` in forge.toml makes it on an image"
                raise RecordingRefused("reproduce", f"the start state cannot be made: {error}{hint}") from error
        on_image = replace(draft, is_on_image=True)
        return await self._start(on_image, folder.with_name(f"{folder.name}-image"))

    async def test(self) -> tuple[Fact, ...]:
        """Stage 6: the facts, and the draft without the steps that no fact depends on."""
        draft = await self.reproduce()
        assert self.state is not None  # noqa: S101 - reproducing made it
        self.facts = await gather(self.bench, self.state, draft)
        self.draft = await _pruned(self.bench, self.state, draft, self.facts)
        return self.facts

    async def prove(self) -> Path:
        """Stage 7: the folder, its three trials, and the gate; the folder lies in the workspace."""
        facts = await self.test()
        draft, state = self.draft, self.state
        assert draft is not None  # noqa: S101 - testing began with both
        assert state is not None  # noqa: S101
        folder = self.workspace / draft.id
        left = await self.bench.solve(state, draft.solution, ())
        measured = {"took_s": left.duration_s, "memory_bytes": left.memory_peak_bytes}
        words = await descriptions(self.bench, state, draft, facts)
        text = instruction(draft, facts, Known(_givens(draft), words))
        tests = files_of_tests(draft, facts)
        await asyncio.to_thread(write_task, draft, folder, instruction=text, tests=tests, measured=measured)
        self.proof = await prove(self.bench, folder, draft, facts, logs=self.workspace / "trials")
        check_proof(self.proof, self.config)
        lineage = json.dumps(_lineage(self), indent=2) + "\n"
        await asyncio.to_thread((folder / "lineage.json").write_text, lineage, "utf-8")
        return folder


def put_in_place(folder: Path, target: Path) -> None:
    """Copy a finished folder to its place, over an earlier one: what is at `target` is always whole.

    What an earlier call left unfinished there is removed.
    """
    fresh, old = (target.with_name(f".{target.name}.{what}") for what in ("new", "old"))
    with _PLACING:
        target.parent.mkdir(parents=True, exist_ok=True)
        for unfinished in target.parent.glob(f".{glob.escape(target.name)}.*"):
            shutil.rmtree(unfinished)
        shutil.copytree(folder, fresh)
        if target.exists():
            target.replace(old)
        fresh.replace(target)
        shutil.rmtree(old, ignore_errors=True)


# Reproducing.


def _linked(draft: Draft, clone: Clone, rules: RepositoryRules, cache: Path) -> Draft:
    """The draft in the repository that its recording lies in, where the session worked in that; what it shows of the
    files in there is not needed then. A repository that cannot be had is no reason to refuse: the replay is."""
    try:
        found = fetch_repository(clone, draft.recorded_at, rules, cache)
    except RecordingRefused as error:
        return replace(draft, unlinked=error.reason)
    if not works_in(draft.steps, found.names, draft.workdir):
        return replace(draft, unlinked=f"the session does not work in {clone.url}")
    base = draft.workdir.rstrip("/") + "/"
    inputs = [given for given in draft.inputs if given.path.removeprefix(base) not in found.names]
    return replace(draft, repositories=(found,), inputs=tuple(inputs))


async def _built(bench: Bench, draft: Draft, folder: Path) -> StartState:
    await asyncio.to_thread(write_environment, draft, folder)
    try:
        _, state = await bench.start_state(folder)
    except TaskError as error:
        raise RecordingRefused("reproduce", f"the start state cannot be made: {error}") from error
    return state


def _mended(draft: Draft, again: Replay) -> Draft:
    """The draft with the statuses that only a replay could tell, and what follows from them."""
    steps = tuple(
        step.cast_as(Role.DROPPED, f"fails with status {step.exit_status}")
        if step.role is Role.SOLVE and step.exit_status in NOT_STARTED
        else step
        for step in amended(draft.steps, again)
    )
    return replace(draft, steps=resolve(steps, draft.workdir))


def _check_fidelity(again: Replay, config: MakingConfig) -> None:
    for step in again.steps:
        if step.recorded_status == 0 and step.exit_status != 0 and step.changes:
            said = " ".join(step.output.split())[-120:]
            problem = (
                f"`{step.text[:60]}` succeeded in the recording and ends with status {step.exit_status} here: {said}"
            )
            raise RecordingRefused("reproduce", problem)
    worst = again.worst
    if again.fidelity < config.least_fidelity:
        shown = f"; least like it: `{worst.text[:60]}` (status {worst.exit_status})" if worst else ""
        raise RecordingRefused("reproduce", f"the replay is like the recording by {again.fidelity:.2f} only{shown}")


# Testing.


async def _pruned(bench: Bench, state: StartState, draft: Draft, facts: tuple[Fact, ...]) -> Draft:
    """The draft without the steps whose absence changes no fact, looked at from the last to the first."""
    asked = tuple((fact.probe, *fact.arguments) for fact in facts)
    wanted = {json.dumps([fact.probe, *fact.arguments]): fact.value for fact in facts}
    for step in reversed(draft.steps):
        if not step.changes or sum(one.changes for one in draft.steps) == 1:
            continue
        script = solution_script(draft.steps, draft.workdir, without={step.number})
        left = await bench.solve(state, script, asked)
        if left.exit_status == 0 and left.facts == wanted:
            draft = _without(draft, step.number)
    return draft


def _without(draft: Draft, number: int) -> Draft:
    steps = tuple(_dropped(step) if step.number == number else step for step in draft.steps)
    return replace(draft, steps=steps)


def _dropped(step: Step) -> Step:
    failed = f"failed with status {step.exit_status} and " if step.exit_status else ""
    return step.cast_as(Role.DROPPED, f"{failed}leaves nothing that stays")


def _givens(draft: Draft) -> list[str]:
    cloned = [one.clone.folder for one in draft.repositories if one.clone.folder != draft.workdir]
    made = [path for step in draft.steps if step.role is Role.INPUT for path in files_of(step)]
    return list(dict.fromkeys([*cloned, *(given.path for given in draft.inputs), *made]))


# Proving.


def check_proof(proof: Proof, config: MakingConfig) -> None:
    """The gate: raises `RecordingRefused` with the name of the trial that did not hold."""
    for trial in proof.broken:
        if trial.kind == "AllPassing":
            raise RecordingRefused("prove", f"AllPassing: the whole solution fails {', '.join(trial.failed[:3])}")
        if trial.kind == "Nop":
            raise RecordingRefused("prove", f"Nop: without any work these pass: {', '.join(trial.passed[:3])}")
        if trial.kind == "Equivalence":
            problem = f"the tests refuse a solution that is just as right ({trial.variant})"
            raise RecordingRefused("prove", f"Equivalence: {problem}: {', '.join(trial.failed[:3])}")
    if proof.mutation_score < config.least_mutation_score:
        survivors = ", ".join([trial.variant for trial in proof.broken if trial.kind == "Partial"][:3])
        raise RecordingRefused("prove", f"Partial: the tests pass {survivors}; score {proof.mutation_score:.2f}")


def _lineage(making: Making) -> dict[str, Any]:
    """What goes with a task: where it comes from and what was proven; no word of the recording's output."""
    found = evidence(making)
    source = making.draft.source if making.draft else ""
    kept = {name: found[name] for name in ("environment", "fidelity", "mutation_score", "trials")}
    return {"recording": {"source": source, "digest": making.transcript.digest}, **kept}


def evidence(making: Making) -> dict[str, Any]:
    """Everything that the stages found so far, as JSON holds it: for `forge explain`."""
    draft, again, proof = making.draft, making.replay, making.proof
    screened = making.screening.transcript if making.screening else None
    likenesses = {step.number: step for step in again.steps} if again else {}
    return {
        "recording": {"source": making.transcript.source, "digest": making.transcript.digest},
        "title": screened.title if screened else "",
        "screening": [one.model_dump(mode="json") for one in making.screening.findings] if making.screening else [],
        "task_id": draft.id if draft else None,
        "steps": [_told(step, likenesses.get(step.number)) for step in draft.steps] if draft else [],
        "environment": _surroundings(draft) if draft else {},
        "fidelity": round(again.fidelity, 4) if again else None,
        "facts": [{"probe": fact.probe, "about": fact.path} for fact in making.facts],
        "mutation_score": round(proof.mutation_score, 4) if proof else None,
        "trials": [trial.model_dump(mode="json") for trial in proof.trials] if proof else [],
    }


def _surroundings(draft: Draft) -> dict[str, Any]:
    """What the image is made of, as far as that is not in its Dockerfile."""
    fetched = [{"url": one.clone.url, "commit": one.commit} for one in draft.repositories]
    undated = draft.installed.undated
    told = {"recorded_at": draft.recorded_at, "repositories": fetched, "undated": list(undated)}
    debian = draft.archive or f"as {draft.base_image} has it"
    told |= {"unlinked": draft.unlinked} if draft.unlinked else {}
    return told | {"debian": debian, "dated": dict(draft.dated), "left_out": list(strangers_in(draft.steps))}


def _told(step: Step, again: Replayed | None) -> dict[str, Any]:
    told = {"number": step.number, "command": step.text, "role": step.role.value, "reason": step.reason}
    if again is not None:
        told |= {"status": again.exit_status, "likeness": round(again.likeness, 3)}
    return told
