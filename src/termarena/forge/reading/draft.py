"""A command while it is being read: what is seen of it, before the whole recording has been."""

from __future__ import annotations

from dataclasses import dataclass

from termarena.forge.transcript import Command, Tier

__all__ = ["Draft"]


@dataclass(slots=True)
class Draft:
    """`line` is the prompt and what was typed behind it; `prompt_length` says where the prompt ends, if that was seen.

    Of a prompt of several lines, `line` holds all of them where its beginning is known.
    """

    line: str
    tier: Tier
    confidence: float
    prompt_length: int | None = None
    output: str = ""
    began_s: float = 0.0
    ended_s: float = 0.0
    cwd: str | None = None
    exit_status: int | None = None
    interactive: bool = False
    shell: bool = True
    began_at: int | None = None
    ended_at: int | None = None
    """Where its output lies on the tape, if that is known."""
    is_joined: bool = False
    """It holds continuation lines already."""

    @property
    def prompt(self) -> str | None:
        """The prompt, if it is known where it ends."""
        return None if self.prompt_length is None else self.line[: self.prompt_length]

    @property
    def text(self) -> str:
        """What was typed; empty where that is not known yet."""
        return "" if self.prompt_length is None else self.line[self.prompt_length :].strip(" \n")

    def command(self) -> Command:
        """The finished value."""
        return Command(
            text=self.text,
            output=self.output,
            tier=self.tier,
            confidence=round(self.confidence, 2),
            began_s=round(self.began_s, 3),
            ended_s=round(max(self.ended_s, self.began_s), 3),
            cwd=self.cwd,
            exit_status=self.exit_status,
            interactive=self.interactive,
            shell=self.shell,
        )
