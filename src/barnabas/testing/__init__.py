"""Brokers inside tests, and twins of the seams that can be told to fail.

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
    # The pytest plugin lives in this package and loads in every pytest run where Barnabas is
    # installed: the broker is imported only when one is wanted.
    if name == "EmbeddedBroker":
        from barnabas.testing.embedded import EmbeddedBroker

        return EmbeddedBroker
    if name == "EmbeddedCluster":
        from barnabas.testing.embedded_cluster import EmbeddedCluster

        return EmbeddedCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
