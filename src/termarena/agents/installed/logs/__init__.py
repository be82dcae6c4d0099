"""What an installed agent writes about its own work, as steps of a trajectory."""

from __future__ import annotations

from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.reading import read_log

__all__ = ["ToldLog", "read_log"]
