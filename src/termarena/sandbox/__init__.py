"""Sandboxes: one contract, several drivers."""

from __future__ import annotations

from termarena.sandbox.contract import (
    Capabilities,
    Change,
    Driver,
    ExecResult,
    FileChanges,
    Prepared,
    ProcessInfo,
    PtyProcess,
    Sandbox,
    SandboxRecord,
    Snapshot,
    TreeReport,
    Usage,
)
from termarena.sandbox.spec import Feature, Limits, Network, NetworkMode, Root, SandboxSpec

__all__ = [
    "Capabilities",
    "Change",
    "Driver",
    "ExecResult",
    "Feature",
    "FileChanges",
    "Limits",
    "Network",
    "NetworkMode",
    "Prepared",
    "ProcessInfo",
    "PtyProcess",
    "Root",
    "Sandbox",
    "SandboxRecord",
    "SandboxSpec",
    "Snapshot",
    "TreeReport",
    "Usage",
]
