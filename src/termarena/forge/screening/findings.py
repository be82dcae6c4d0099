"""What screening says about a recording: findings with their evidence, a score, a decision that follows from both."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from termarena.forge.transcript import Transcript

__all__ = ["Evidence", "Finding", "Gate", "Quality", "Redaction", "Screening"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gate(StrEnum):
    """The question that a finding answers."""

    READABLE = "readable"
    PRIVACY = "privacy"
    SAFETY = "safety"
    SURFACE = "surface"
    REPRODUCIBILITY = "reproducibility"
    LENGTH = "length"
    QUALITY = "quality"
    DUPLICATES = "duplicates"
    CONTAMINATION = "contamination"


class Evidence(_Frozen):
    """What a finding rests on; `excerpt` never holds what was redacted."""

    where: str  # "command 3", "output 3", "text", "header"
    excerpt: str


class Finding(_Frozen):
    """One thing that was seen. A `drop` refuses the recording, a `note` only tells."""

    gate: Gate
    rule: str
    effect: Literal["drop", "note"]
    reason: str
    evidence: tuple[Evidence, ...] = ()


class Redaction(_Frozen):
    """One value that was replaced wherever it stood; the value itself is not kept."""

    kind: str
    placeholder: str
    times: int


class Quality(_Frozen):
    """Four axes of 0 to 3 each: can the steps be followed, did they take judgement, is success seen, what is around."""

    alignment: int
    complexity: int
    signal: int
    context: int

    @property
    def total(self) -> int:
        """0 to 12."""
        return self.alignment + self.complexity + self.signal + self.context


class Screening(_Frozen):
    """The outcome for one recording; `transcript` is the redacted one, None where nothing may be passed on."""

    source: str
    digest: str
    kept: bool
    findings: tuple[Finding, ...]
    redactions: tuple[Redaction, ...] = ()
    quality: Quality | None = None
    transcript: Transcript | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was refused, one sentence each."""
        return tuple(finding.reason for finding in self.findings if finding.effect == "drop")
