"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["machine_facts", "version_of"]


def machine_facts() -> dict[str, str | int | float]:
    """Processor, kernel, interpreter, engine, load: printed with every table."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count() or 0,
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "docker": version_of(["docker", "version", "--format", "{{.Server.Version}}"]),
        "load": round(os.getloadavg()[0], 2),
        "user": "root" if os.geteuid() == 0 else "ordinary user",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def version_of(command: list[str]) -> str:
    """What a command answers, or that it does not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return "not there"
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "silent"
