"""Screening one recording: every gate is asked, every answer has its evidence, what cannot be judged is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from termarena.forge.hosts import REFS
from termarena.forge.messages import with_message
from termarena.forge.screening.danger import dangers, dangers_typed
from termarena.forge.screening.findings import Evidence, Finding, Gate, Redaction, Screening
from termarena.forge.screening.hosting import Need, needs_of_call, needs_of_machine
from termarena.forge.screening.privacy import SECRET, find_private
from termarena.forge.screening.quality import quality_of
from termarena.forge.screening.redaction import Redactor
from termarena.forge.screening.rules import ScreenRules
from termarena.shell.effects import EDITORS, changes_state, is_pager
from termarena.shell.reader import ShellReader
from termarena.shell.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.forge.screening.findings import Quality
    from termarena.forge.transcript import Command, Transcript
    from termarena.shell.calls import Call, Called

__all__ = ["refused", "screen"]

EXCERPT: Final = 160
SHOWN_EVIDENCE: Final = 5
_SENTENCE: Final = re.compile(r"[A-Z(][\w'(),-]*(?: [\w'(),./-]+){2,}[.:!?]?$")
_ELSEWHERE: Final = words("cloud remote-host private-address private-repository")
_MULTIPLEXERS: Final = words("tmux screen byobu zellij dvtm abduco")
_IDLE: Final = words("exit logout clear reset history")
# Programs that show a secret to somebody who checks it: a placeholder in its place makes the command fail.
_SECRET_USERS: Final = words(
    "curl wget http https ssh scp sftp sshpass git gh glab aws az gcloud docker podman npm yarn pip twine heroku vault"
    " kubectl helm psql mysql mongo mongosh redis-cli ftp lftp openssl gpg doctl terraform rclone s3cmd"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """A redacted transcript with its shell commands taken apart; `numbers` say which commands those are."""

    transcript: Transcript
    numbers: tuple[int, ...]
    scripts: tuple[Called, ...]
    rules: ScreenRules

    def commands(self) -> Iterator[tuple[int, Command, Called]]:
        for number, script in zip(self.numbers, self.scripts, strict=True):
            yield number, self.transcript.commands[number], script


def screen(transcript: Transcript, rules: ScreenRules | None = None) -> Screening:
    """Judge one transcript. Raises `MissingExtra` where the parsers are not installed."""
    redactor = Redactor(find_private(transcript))
    redacted = _redacted(transcript, redactor)
    case = _case(redacted, rules or ScreenRules())
    quality = quality_of(redacted, case.scripts)
    findings = (
        *_privacy(case, redactor),
        *_safety(case),
        *_surface(case),
        *_reproducibility(case, redactor),
        *_length(case),
        *_prose(case),
        *_quality(case, quality),
    )
    kept = all(finding.effect != "drop" for finding in findings)
    return Screening(
        source=transcript.source,
        digest=transcript.digest,
        kept=kept,
        findings=findings,
        redactions=_redactions(redactor),
        quality=quality,
        transcript=redacted,
    )


def refused(source: str, digest: str, reason: str, *, rule: str = "unreadable") -> Screening:
    """The outcome of a recording that could not be judged."""
    finding = Finding(gate=Gate.READABLE, rule=rule, effect="drop", reason=reason)
    return Screening(source=source, digest=digest, kept=False, findings=(finding,))


def _case(transcript: Transcript, rules: ScreenRules) -> _Case:
    reader = ShellReader()
    numbers, scripts = [], []
    for number, command in enumerate(transcript.commands):
        if command.shell and not command.text.startswith("#"):
            numbers.append(number)
            scripts.append(reader.read(command.text, cwd=command.cwd))
    return _Case(transcript, tuple(numbers), tuple(scripts), rules)


def _redacted(transcript: Transcript, redactor: Redactor) -> Transcript:
    clean = redactor.clean
    commands = tuple(
        command.model_copy(
            update={
                "text": clean(command.text),
                "output": clean(command.output),
                "cwd": clean(command.cwd) if command.cwd else command.cwd,
            }
        )
        for command in transcript.commands
    )
    facts = transcript.facts
    named = {name: clean(f"@{value}")[1:] for name in ("user", "host", "home") if (value := getattr(facts, name))}
    update = {
        # A public address is how an author finds what was made of a recording.
        "source": transcript.source if "://" in transcript.source else clean(transcript.source),
        "title": clean(transcript.title),
        "text": clean(transcript.text),
        "commands": commands,
    }
    return transcript.model_copy(update={**update, "facts": facts.model_copy(update=named)})


def _redactions(redactor: Redactor) -> tuple[Redaction, ...]:
    return tuple(
        Redaction(kind=redactor.kinds[value], placeholder=placeholder, times=redactor.times[value])
        for value, placeholder in redactor.placeholders.items()
        if redactor.times[value]
    )


def _finding(gate: Gate, rule: str, effect: Literal["drop", "note"], reason: str, *shown: tuple[str, str]) -> Finding:
    evidence = tuple(Evidence(where=where, excerpt=text[:EXCERPT]) for where, text in shown[:SHOWN_EVIDENCE])
    return Finding(gate=gate, rule=rule, effect=effect, reason=reason, evidence=evidence)


def _privacy(case: _Case, redactor: Redactor) -> Iterator[Finding]:
    redactions = _redactions(redactor)
    if redactions:
        kinds = sorted({redaction.kind for redaction in redactions})
        yield _finding(Gate.PRIVACY, "redacted", "note", f"private values were replaced: {', '.join(kinds)}")
    secrets = [redaction.placeholder for redaction in redactions if redaction.kind == SECRET]
    for number, command, script in case.commands():
        used = [call for call in script.calls if call.program in _SECRET_USERS]
        if used and any(secret in call.text for call in used for secret in secrets):
            reason = f"{used[0].program} needs a secret that cannot be passed on"
            yield _finding(Gate.PRIVACY, "secret-needed", "drop", reason, (f"command {number + 1}", command.text))


def _safety(case: _Case) -> Iterator[Finding]:
    unparsed = [
        (f"command {number + 1}", command.text) for number, command, script in case.commands() if not script.is_whole
    ]
    for number, command, script in case.commands():
        for danger in dangers(script, command.text):
            allowed = danger.rule == "pipes-to-shell" and case.rules.allow_pipe_to_shell
            effect: Literal["drop", "note"] = "note" if allowed else "drop"
            yield _finding(Gate.SAFETY, danger.rule, effect, danger.reason, (f"command {number + 1}", danger.text))
    for number, command in enumerate(case.transcript.commands):
        for danger in dangers_typed(command.text) if not command.shell else ():
            yield _finding(Gate.SAFETY, danger.rule, "drop", danger.reason, (f"command {number + 1}", danger.text))
    if unparsed and len(unparsed) > case.rules.most_unparsed_share * len(case.scripts):
        reason = (
            f"{len(unparsed)} of {len(case.scripts)} commands cannot be taken apart, so nobody can say what they do"
        )
        yield _finding(Gate.SAFETY, "unparsed", "drop", reason, *unparsed)


def _surface(case: _Case) -> Iterator[Finding]:
    effect: Literal["drop", "note"] = "note" if case.rules.allow_full_screen else "drop"
    full = [(number, command) for number, command in enumerate(case.transcript.commands) if command.interactive]
    for number, command in full:
        taker = _last_called(command.text)
        program = taker.program if taker is not None else ""
        shown = (f"command {number + 1}", command.text)
        if program in _MULTIPLEXERS:
            reason = f"{program} held the screen: lines typed inside of it are not read"
            yield _finding(Gate.SURFACE, "multiplexer", effect, reason, shown)
        elif with_message(command.text, command.output) is not None:
            yield _finding(Gate.SURFACE, "message", "note", "git showed an editor, and says what was written", shown)
        elif taker is not None and is_pager(taker):
            yield _finding(Gate.SURFACE, "pager", "note", f"{program} took the screen to show something", shown)
        else:
            yield _finding(
                Gate.SURFACE, "full-screen", effect, f"{program or 'a program'} took the whole screen", shown
            )
    if case.transcript.inside_alternate:
        reason = "all of it is on the alternate screen, as within screen, and was read there"
        yield _finding(Gate.SURFACE, "multiplexer", "note", reason)
    elif case.transcript.alternate_screen and not full:
        is_all = not case.transcript.commands and not case.transcript.text.strip()
        inside = "all of it is on the alternate screen, as within tmux or screen: lines typed there are not read"
        likely = [
            (call.program, (f"command {number + 1}", command.text))
            for number, command, script in case.commands()
            for call in script.calls
            if call.program in EDITORS
        ]
        unknown = "something took the whole screen, and no command is known for it"
        reason = inside if is_all else f"{likely[0][0]} took the whole screen" if likely else unknown
        shown_likely = [shown for _, shown in likely]
        yield _finding(Gate.SURFACE, "multiplexer" if is_all else "full-screen", effect, reason, *shown_likely)
    foreign = [command for command in case.transcript.commands if not command.shell]
    if len(foreign) > case.rules.most_foreign_share * len(case.transcript.commands):
        reason = f"{len(foreign)} of {len(case.transcript.commands)} lines were typed into something else than a shell"
        yield _finding(Gate.SURFACE, "not-a-shell", "drop", reason, ("command", foreign[0].text))


def _last_called(text: str) -> Call | None:
    """The call at the end of a line: of `watch kubectl get pods` the whole, of `tree | less` the pager."""
    calls = ShellReader().read(text).calls
    ending = [call for call in calls if text.rstrip().endswith(call.text)]
    return max(ending, key=lambda call: len(call.text)) if ending else next(reversed(calls), None)


def _reproducibility(case: _Case, redactor: Redactor) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for need in needs_of_machine(case.transcript):
        yield _finding(Gate.REPRODUCIBILITY, need.rule, need.effect, need.reason, ("header", need.text))
    for number, _, script in case.commands():
        for found in (need for call in script.calls for need in needs_of_call(call)):
            need = _still_there(found, redactor) if case.rules.check_addresses and found.url else found
            if (need.rule, need.reason) in told:
                continue
            told.add((need.rule, need.reason))
            allowed = case.rules.allow_remote and need.rule in _ELSEWHERE
            effect = "note" if allowed else need.effect
            yield _finding(Gate.REPRODUCIBILITY, need.rule, effect, need.reason, (f"command {number + 1}", need.text))


def _still_there(need: Need, redactor: Redactor) -> Need:
    """The need, or that what it names is gone; an address with a replaced name in it is not the one that was asked."""
    if any(placeholder in need.url for placeholder in redactor.placeholders.values()):
        return need
    from termarena.forge.screening.addresses import reached  # noqa: PLC0415 - few ask, and it brings all of HTTP

    answer = reached(need.url)
    if not answer.is_dead:
        return need
    return Need("dead-address", "drop", f"{need.url.removesuffix(REFS)} is gone: {answer.why}", need.text)


def _length(case: _Case) -> Iterator[Finding]:
    working = [
        command for _, command, _ in case.commands() if command.text.split()[:1] not in [[word] for word in _IDLE]
    ]
    changes = sum(changes_state(call) for script in case.scripts for call in script.calls)
    if len(working) < case.rules.least_commands:
        told = "1 command" if len(working) == 1 else f"{len(working)} commands"
        reason = f"it has {told}; {case.rules.least_commands} are the least"
        yield _finding(Gate.LENGTH, "too-short", "drop", reason)
    elif changes < case.rules.least_state_changes:
        yield _finding(
            Gate.LENGTH, "changes-nothing", "drop", "no command changes anything: there would be nothing to test"
        )
    if len(working) > case.rules.most_commands:
        reason = f"it has {len(working)} commands; {case.rules.most_commands} are the most"
        yield _finding(Gate.LENGTH, "too-long", "drop", reason)


def _prose(case: _Case) -> Iterator[Finding]:
    """Demonstrations that show sentences where others have a prompt."""
    sentences = [command.text for _, command, _ in case.commands() if _SENTENCE.match(command.text)]
    if sentences and len(sentences) > case.rules.most_foreign_share * len(case.numbers):
        reason = f"{len(sentences)} of {len(case.numbers)} lines are sentences, not commands"
        yield _finding(Gate.QUALITY, "prose", "drop", reason, *(("command", text) for text in sentences))


def _quality(case: _Case, quality: Quality) -> Iterator[Finding]:
    commands = case.transcript.commands
    sure = sum(command.confidence for command in commands) / len(commands) if commands else 0.0
    if commands and sure < case.rules.least_confidence:
        reason = f"its commands are read with a confidence of {sure:.2f}; {case.rules.least_confidence} is the least"
        yield _finding(Gate.QUALITY, "unsure", "drop", reason)
    if quality.total < case.rules.least_quality:
        parts = ", ".join(f"{name} {value}" for name, value in quality.model_dump().items())
        reason = f"its score is {quality.total} of 12 ({parts}); {case.rules.least_quality} is the least"
        yield _finding(Gate.QUALITY, "low-score", "drop", reason)
