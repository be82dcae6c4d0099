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
    Surroundings,
    TreeReport,
    Usage,
)
from termarena.sandbox.spec import MODEL_URL, Feature, Limits, Mount, Network, NetworkMode, Root, SandboxSpec

__all__ = [
    "MODEL_URL",
    "Capabilities",
    "Change",
    "Driver",
    "ExecResult",
    "Feature",
    "FileChanges",
    "Limits",
    "Mount",
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
    "Surroundings",
    "TreeReport",
    "Usage",
]
