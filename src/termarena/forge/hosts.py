"""What hosts and addresses of repositories look like; nothing is asked of them here."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

__all__ = ["REFS", "is_private"]

REFS: Final = "/info/refs?service=git-upload-pack"
"""What git asks a repository for first."""
_PRIVATE_NAME: Final = re.compile(r"(?i)[^.]+|.*\.(?:local|internal|intranet|corp|lan|home|private)")


def is_private(host: str) -> bool:
    """Whether a host's name, or its address, is one of private networks."""
    try:
        address = ip_address(host)
    except ValueError:
        return _PRIVATE_NAME.fullmatch(host) is not None
    return not address.is_global
