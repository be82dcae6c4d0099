"""The docker driver: sandboxes as containers, through the Engine API."""

from __future__ import annotations

from termarena.sandbox.docker.address import Address, find_address, parse_address
from termarena.sandbox.docker.driver import DockerDriver

__all__ = ["Address", "DockerDriver", "find_address", "parse_address"]
