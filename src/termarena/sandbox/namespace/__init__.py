"""The embedded sandbox of Linux: user, mount, pid, network, ipc and uts namespaces, an overlay, a small process 1."""

from __future__ import annotations

from termarena.sandbox.namespace.driver import NamespaceDriver
from termarena.sandbox.namespace.probe import Fact, Facts, probe

__all__ = ["Fact", "Facts", "NamespaceDriver", "probe"]
