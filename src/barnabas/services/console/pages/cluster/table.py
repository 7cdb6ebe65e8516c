"""Routes of the cluster pages."""

from __future__ import annotations

from barnabas.services.console.pages.cluster import (
    broker_config,
    brokers,
    mirrors,
    moves,
    tiering,
    transactions,
)
from barnabas.services.console.pages.cluster import dead_letters as dead

_MODULES = (brokers, broker_config, moves, dead, transactions, tiering, mirrors)
routes = [route for module in _MODULES for route in module.routes]
