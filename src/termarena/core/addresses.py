"""Which network addresses may be reached from here: the rule, without any client that keeps it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from termarena.core.errors import AddressRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Address", "AddressPolicy", "meant"]

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

IPV4: Final = 4
IPV6: Final = 6
TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")


def meant(address: Address) -> Address:
    """The address that is meant: an IPv6 address may hold an IPv4 one, ::ffff:10.0.0.1, 2002:a00:1:: of 6to4, and
    64:ff9b::a00:1 where a network translates."""
    held: Address | None = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if held is None and address.version == IPV6 and address in TRANSLATED:
        held = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return held if held is not None else address


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What may be reached: public addresses, this machine where that is allowed, and private networks by name."""

    allows_loopback: bool = True
    private_networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, networks: Sequence[str], *, allows_loopback: bool = True) -> AddressPolicy:
        """Raises `AddressRefused` for a text that is no network such as 10.1.0.0/16."""
        try:
            named = tuple(ipaddress.ip_network(network) for network in networks)
        except ValueError as error:
            raise AddressRefused(str(networks), why=str(error), hint="write a network: 10.1.0.0/16") from error
        return cls(allows_loopback, named)

    def check(self, host: str, address: Address) -> None:
        """Raises `AddressRefused`."""
        plain = meant(address)
        shown = host if host == str(plain) else f"{host} ({plain})"
        if plain.is_link_local:
            raise AddressRefused(shown, why="link-local addresses belong to the machine's own network")
        if plain.is_loopback:  # asked first: ::1 is a reserved address as well
            if not self.allows_loopback and not self._is_named(plain):
                hint = f"name it: --allow-network {'127.0.0.0/8' if plain.version == IPV4 else '::1/128'}"
                raise AddressRefused(shown, why="this machine's own services are not offered to others", hint=hint)
        elif plain.is_multicast or plain.is_unspecified or plain.is_reserved:
            raise AddressRefused(shown, why="it is no address of one machine")
        elif (not plain.is_global or getattr(plain, "is_site_local", False)) and not self._is_named(plain):
            hint = f"name its network: --allow-network {ipaddress.ip_network(plain)}"
            raise AddressRefused(shown, why="private networks are reached by permission only", hint=hint)

    def literal(self, host: str) -> Address | None:
        """The address that a host is already, checked; None for a name. Raises `AddressRefused`."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return None
        self.check(host, address)
        return address

    def first_of(self, host: str, found: Sequence[str]) -> Address:
        """The first of a name's addresses, if all of them may be reached. Raises `AddressRefused`."""
        addresses = [ipaddress.ip_address(one) for one in found]
        for address in addresses:
            self.check(host, address)
        return addresses[0]

    def _is_named(self, address: Address) -> bool:
        return any(address in network for network in self.private_networks)
