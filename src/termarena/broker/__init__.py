"""The broker: the HTTP server that is a sandbox's only way to a model."""

from __future__ import annotations

from termarena.broker.contract import Exchanged
from termarena.broker.seats import Seat
from termarena.broker.server import Broker

__all__ = ["Broker", "Exchanged", "Seat"]
