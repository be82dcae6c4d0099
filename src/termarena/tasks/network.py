"""Network policies as documents write them."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from termarena.tasks.model import NetworkPolicy

if TYPE_CHECKING:
    from termarena.tasks.checking import Checker

__all__ = ["PUBLIC", "policy_of"]

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
PUBLIC = NetworkPolicy()
_POLICIES = {
    "public": PUBLIC,
    "no-network": NetworkPolicy(mode="none"),
    "allowlist": NetworkPolicy(mode="allowlist"),
}


def policy_of(
    check: Checker, place: str, *, mode: str | None, hosts: tuple[str, ...] | None, allow_internet: bool | None = None
) -> NetworkPolicy | None:
    """The policy of one section; None when it says nothing. `allow_internet` is the older spelling and loses against
    `mode`."""
    if hosts and mode != "allowlist":
        raise check.refuse(
            f"{place}.allowed_hosts", found=list(hosts), expected='no hosts unless network_mode is "allowlist"'
        )
    if mode is None and allow_internet is not None:
        mode = "public" if allow_internet else "no-network"
    if mode is None:
        return None
    if not hosts:
        return _POLICIES[mode]
    return NetworkPolicy(
        mode="allowlist", allowed_hosts=tuple(_host(check, f"{place}.allowed_hosts", host) for host in hosts)
    )


def _host(check: Checker, place: str, host: str) -> str:
    """One allow-list entry in its normal form: lower case, no trailing dot, addresses and ranges compressed."""
    name = host.strip().lower().rstrip(".")
    try:
        if "/" in name:
            return ipaddress.ip_network(name, strict=True).compressed
        if ":" in name:
            return ipaddress.IPv6Address(name).compressed
    except ValueError:
        raise check.refuse(
            place, found=host, expected="a host name, an address or a CIDR range, without scheme or port"
        ) from None
    if not all(_LABEL.fullmatch(label) for label in name.removeprefix("*.").split(".")):
        raise check.refuse(
            place, found=host, expected="a host name (a leading `*.` is allowed), an address or a CIDR range"
        )
    return name
