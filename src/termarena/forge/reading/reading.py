"""Reading a recording: from its bytes to a transcript."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.forge.casts import load_file, parse_loaded, parse_recording
from termarena.forge.reading.facts import facts_of
from termarena.forge.reading.inputs import recorded_command
from termarena.forge.reading.keystrokes import KeystrokeWatcher
from termarena.forge.reading.mining import are_calls, mine
from termarena.forge.reading.page import Page
from termarena.forge.reading.playing import play
from termarena.forge.reading.prompts import is_interpreter
from termarena.forge.reading.resolving import agreed, resolve, with_prompts, without_completions
from termarena.forge.reading.tape import tape_of
from termarena.forge.reading.watching import LineWatcher
from termarena.forge.transcript import REPOSITORY, Tier, Transcript

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.casts import Loaded, Recording
    from termarena.forge.reading.draft import Draft
    from termarena.forge.reading.tape import Tape
    from termarena.forge.retrieving.shelf import Origin

__all__ = ["read", "read_bytes", "read_loaded"]

QUIET_S: Final = 0.12
"""Prompts arrive in one burst; people type later than this."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
LEAST_SHOWN: Final = 3
"""Lines that a script seems to type; fewer may stand in any file that is shown."""


def read(path: Path) -> Transcript:
    """Read one recording; raises `RecordingError` for a file that is none."""
    return read_loaded(load_file(path))


def read_loaded(loaded: Loaded) -> Transcript:
    """The same for a file that is in memory."""
    found = _transcript(parse_loaded(loaded), source=loaded.path, digest=loaded.digest)
    origin = loaded.origin
    return _from(origin, found) if origin is not None and origin.digest == found.digest else found


def _from(origin: Origin, transcript: Transcript) -> Transcript:
    """With what is known about a retrieved recording from where it came."""
    facts = transcript.facts
    if facts.recorded_at is None and origin.submitted_at:
        facts = facts.model_copy(update={"recorded_at": origin.submitted_at})
    named = {"source": origin.address, "title": transcript.title or origin.title, "licence": origin.licence}
    linked = REPOSITORY.search(f"{origin.title}\n{origin.description}")
    repository = origin.repository or (linked[0].removesuffix(".git") if linked else None)
    return transcript.model_copy(update={**named, "repository": repository, "facts": facts})


def read_bytes(raw: bytes, *, source: str) -> Transcript:
    """Read a recording that is in memory; raises `ValueError` for what is none."""
    return _transcript(parse_recording(raw), source=source, digest=_digest(raw))


def _digest(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


class _Found(NamedTuple):
    drafts: list[Draft]
    text: str


def _transcript(recording: Recording, *, source: str, digest: str) -> Transcript:
    tape = tape_of(recording.events)
    found = _look(tape, recording)
    for draft in found.drafts:
        if draft.began_at is not None:
            draft.interactive |= tape.is_drawn(draft.began_at, draft.ended_at or len(tape.content))
    commands = resolve(found.drafts) or recorded_command(recording, found.text)
    return Transcript(
        source=source,
        digest=digest,
        title=_title(recording),
        version=recording.version,
        cols=recording.cols,
        rows=recording.rows,
        duration_s=recording.events[-1].at_s if recording.events else 0.0,
        commands=commands,
        facts=facts_of(recording, commands, found.text),
        text=found.text,
        alternate_screen=tape.has_alternate,
        inside_alternate=tape.is_inside,
        trouble=recording.trouble,
    )


def _look(tape: Tape, recording: Recording) -> _Found:
    """Play the tape before the watcher whose evidence it has; the text alone is the last resort."""
    if recording.version == "txt" and not _CONTROL.search(tape.content.replace(b"\r\n", b"\n")):
        # Nothing in it moves a cursor: no screen, which forgets its first lines, is needed.
        lines = tape.content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        shown = "\n".join(line.rstrip() for line in lines).rstrip("\n")
        return _Found(mine(shown, Tier.TEXT), shown)
    with Page(recording.cols, recording.rows) as page:
        has_marks = tape.has_marks("B", "C")
        if has_marks or tape.has_edits:
            watcher = LineWatcher(page, marks=has_marks)
            text = play(tape, page, watcher, tape.quiets(QUIET_S))
            return _Found(_with_demonstrations(watcher.drafts, tape), text)
        keys = KeystrokeWatcher(page, tape)
        text = play(tape, page, keys, tape.borders())
    text = _with_ends(text, keys.full)
    entered = without_completions(keys.drafts)
    typed = with_prompts(entered)
    is_timed = recording.version != "txt" and len(tape.starts) > 1
    mined = mine(text, Tier.PROMPT if is_timed else Tier.TEXT, (draft.prompt or "" for draft in typed))
    mined = agreed(mined, typed, keys.relisted)
    if bare := _without_prompt(entered):
        return _Found(bare, text)
    is_more = len(mined) > len(typed) + len(keys.drafts) - len(entered)
    return _Found(mined if is_more else typed, text)


def _with_ends(text: str, lines: list[str]) -> str:
    """Lines that end at the edge of the screen run on into what was printed below them: they end here."""
    for line in lines:
        text = re.sub(rf"(?m)^{re.escape(line)}(?=.)", lambda found: found[0] + "\n", text, count=1)
    return text


def _without_prompt(entered: list[Draft]) -> list[Draft]:
    """Lines of a demonstration that shows no prompt: typed key by key, and nearly all of them calls or remarks."""
    is_bare = all((draft.prompt or "").strip() in ("", "#") for draft in entered)
    said = [draft for draft in entered if re.search(r"\w", draft.line)]  # lines are drawn, too
    if len(said) < LEAST_SHOWN or not is_bare or not are_calls([draft.line for draft in said]):
        return []
    for draft in said:
        draft.prompt_length = 0
    return said


def _with_demonstrations(drafts: list[Draft], tape: Tape) -> list[Draft]:
    """The drafts; a script that types commands for its viewers, with a prompt of its own, is those commands."""
    kept: list[Draft] = []
    for draft in drafts:
        shown = mine(draft.output, Tier.PROMPT) if _is_slow(draft, tape) else []
        is_shell = not any(_is_others(one.prompt or "", draft.prompt or "") for one in shown)
        is_typed = len(shown) >= LEAST_SHOWN and is_shell
        for one in shown if is_typed else ():
            one.began_s = one.ended_s = draft.began_s
        kept += shown if is_typed else [draft]
    return kept


def _is_others(prompt: str, around: str) -> bool:
    """Whether a prompt within a command is not that of a shell, as the one around it is."""
    return is_interpreter(prompt) or (prompt.rstrip().endswith(">") and not around.rstrip().endswith(">"))


def _is_slow(draft: Draft, tape: Tape) -> bool:
    if draft.began_at is None or draft.ended_at is None:
        return False
    return tape.slow_lines(draft.began_at, draft.ended_at) >= LEAST_SHOWN


def _title(recording: Recording) -> str:
    title = recording.header.get("title")
    return title if isinstance(title, str) else ""
