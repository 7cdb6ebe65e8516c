"""Embedded brokers for tests, and in-memory substitutes for files, object stores and ZooKeeper with fault injection.

from barnabas.testing import EmbeddedBroker

with EmbeddedBroker() as broker:
    broker.bootstrap_servers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.embedded import EmbeddedBroker as EmbeddedBroker
    from barnabas.testing.embedded_cluster import EmbeddedCluster as EmbeddedCluster

__all__ = ["EmbeddedBroker", "EmbeddedCluster"]


def __getattr__(name: str) -> Any:
    # The pytest plugin of this package is loaded in every pytest run where Barnabas is installed, so the broker is
    # imported on use.
    if name == "EmbeddedBroker":
        from barnabas.testing.embedded import EmbeddedBroker

        return EmbeddedBroker
    if name == "EmbeddedCluster":
        from barnabas.testing.embedded_cluster import EmbeddedCluster

        return EmbeddedCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
