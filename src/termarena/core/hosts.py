"""Addresses to listen on: whether others can reach them."""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it: an address of loopback, or `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
