"""What `termarena doctor` looks at: each check tries the thing itself and says what it found and what to do.

A check is a function of a `Machine` that returns one `Check`; CHECKS is their order on the screen. A check leaves
nothing behind and does not raise: what it cannot find out is `missing` or `limited` with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check, Machine, Status
from termarena.cli.checks.engines import check_compose, check_engine
from termarena.cli.checks.extras import check_extras, check_keys
from termarena.cli.checks.hardware import check_disk, check_gpu, check_processors
from termarena.cli.checks.sandbox import (
    check_cgroups,
    check_changes_on_disk,
    check_identities,
    check_overlay,
    check_proc,
    check_seccomp,
    check_shared_layers,
    check_user_namespaces,
)
from termarena.cli.checks.system import check_git, check_kernel, check_python, check_settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHECKS", "Check", "Machine", "Status", "check_engine"]

CHECKS: tuple[Callable[[Machine], Check], ...] = (
    check_python,
    check_kernel,
    check_processors,
    check_disk,
    check_settings,
    check_git,
    check_user_namespaces,
    check_overlay,
    check_proc,
    check_seccomp,
    check_identities,
    check_shared_layers,
    check_changes_on_disk,
    check_cgroups,
    check_engine,
    check_compose,
    check_gpu,
    check_keys,
    check_extras,
)
