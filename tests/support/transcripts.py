"""Transcripts made of plain lines, for tests that do not need a recording."""

from __future__ import annotations

from termarena.forge.transcript import Command, Facts, Tier, Transcript

__all__ = ["transcript"]


def transcript(*lines: str | tuple[str, str], title: str = "Do something useful here", **fields: object) -> Transcript:
    """Each line is a command, or a command and what it printed; all succeeded and were told by marks."""
    pairs = [line if isinstance(line, tuple) else (line, "") for line in lines]
    commands = tuple(
        Command(text=text, output=output, tier=Tier.MARKS, confidence=1.0, exit_status=0, cwd="/app")
        for text, output in pairs
    )
    shown = "\n".join(f"$ {text}\n{output}" for text, output in pairs)
    made = Transcript(
        source="made.cast",
        digest="sha256:0",
        title=title,
        version="2",
        cols=80,
        rows=24,
        duration_s=10.0,
        commands=commands,
        facts=Facts(shell="bash"),  # noqa: S604 - a name
        text=shown,
    )
    return made.model_copy(update=fields)
