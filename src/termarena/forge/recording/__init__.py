"""Recording: a shell on a terminal, taught to mark its own lines, and written down as an asciicast."""

from __future__ import annotations

from termarena.forge.recording.local import LocalPty
from termarena.forge.recording.shells import ShellStart, marked_shell
from termarena.forge.recording.titles import set_title

__all__ = ["LocalPty", "ShellStart", "marked_shell", "set_title"]
