"""Screening: which recordings may become tasks, what had to be redacted, and why the others were refused."""

from __future__ import annotations

from termarena.forge.screening.findings import Evidence, Finding, Gate, Quality, Redaction, Screening
from termarena.forge.screening.rules import ScreenRules
from termarena.forge.screening.screening import screen
from termarena.forge.screening.shards import ScreenPlan, screen_file, screen_files

__all__ = [
    "Evidence",
    "Finding",
    "Gate",
    "Quality",
    "Redaction",
    "ScreenPlan",
    "ScreenRules",
    "Screening",
    "screen",
    "screen_file",
    "screen_files",
]
