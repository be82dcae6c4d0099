"""What the agent changed that could bend the grading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.grading.contract import GradingFault

if TYPE_CHECKING:
    from termarena.sandbox.contract import FileChanges

__all__ = ["blamed"]

_FOLDERS: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_TOOLS: Final = ("sh", "bash", "dash", "env", "python3", "python", "pytest", "uv", "rm", "mkdir", "chmod")


def blamed(fault: GradingFault, changes: FileChanges) -> GradingFault:
    """The fault, as the agent's where it replaced or removed a tool that every grading needs."""
    tools = {f"{folder}/{name}" for folder in _FOLDERS for name in _TOOLS}
    broken = [change.path for change in changes.changes if change.path in tools and change.change != "metadata"]
    if not broken or fault.reason in ("tests_changed", "no_tests"):
        return fault
    return GradingFault(
        reason="toolchain_broken_by_agent", message=f"{fault.message}; the agent changed {', '.join(broken)}"
    )
