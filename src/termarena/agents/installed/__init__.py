"""Installed agents: programs of others that live in the sandbox and reach their model through the broker."""

from __future__ import annotations
