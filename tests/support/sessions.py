"""Sessions made by hand: what a recording would show, without one."""

from __future__ import annotations

import hashlib

from termarena.forge.screening import ScreenRules
from termarena.forge.transcript import Command, Facts, Tier, Transcript

SHORT = ScreenRules(least_commands=1, least_state_changes=0, least_quality=0)
"""Lets sessions of a line or two through."""


def command(text: str, output: str = "", status: int | None = 0, *, cwd: str | None = None) -> Command:
    """One command as the shell's own marks would tell it."""
    return Command(text=text, output=output, exit_status=status, cwd=cwd, tier=Tier.MARKS, confidence=1.0)


def session(title: str, *commands: Command | str, facts: Facts | None = None) -> Transcript:
    """A transcript of these commands; a plain text is one that printed nothing and ended well."""
    told = tuple(command(one) if isinstance(one, str) else one for one in commands)
    digest = "sha256:" + hashlib.sha256(repr((title, told)).encode()).hexdigest()
    return Transcript(
        source=f"{title.lower().replace(' ', '-')}.cast",
        digest=digest,
        title=title,
        version="2",
        cols=80,
        rows=24,
        duration_s=10.0,
        commands=told,
        facts=facts or Facts(),
    )


SORTING = session(
    "Sort the names",
    "cat > names.txt <<'EOF'\nzoe\nanna\nbob\nanna\nEOF",
    command("ls", "names.txt\n"),
    "sort -u names.txt > sorted.txt",
    command("cat sorted.txt", "anna\nbob\nzoe\n"),
)
COUNTING = session(
    "Count the errors in the log",
    command("cat app.log", "INFO start\nERROR disk\nINFO go\nERROR net\n"),
    command("grep -c ERROR app.log", "2\n"),
)
COMMITTING = session(
    "Commit a file",
    "mkdir proj && cd proj",
    "git init -q",
    "echo hello > README.md",
    command("git comit -m x", "git: 'comit' is not a git command. See 'git --help'.\n", 1),
    "git add README.md",
    "git commit -qm 'first commit'",
    command("git log --oneline", "1234567 first commit\n"),
)
EDITING = session("Edit a file", "mkdir desk", "cd desk", "vim notes.txt", command("cat notes.txt", "hello\n"))
