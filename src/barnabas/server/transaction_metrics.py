"""What monitoring sees of the transactions that this broker coordinates."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.metrics import catalogue
from barnabas.metrics.registry import Registry
from barnabas.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def declare_transaction_metrics(registry: Registry, broker: Broker) -> None:
    def shards() -> Collection[TransactionShard]:
        """None before the broker has started."""
        coordinators = getattr(broker, "coordinators", None)
        return () if coordinators is None else coordinators.transactions.shards

    def refused() -> int:
        coordinators = getattr(broker, "coordinators", None)
        return 0 if coordinators is None else coordinators.transactions.refused

    registry.read_by(catalogue.TRANSACTIONAL_IDS, lambda: sum(map(len, shards())))
    registry.read_by(
        catalogue.TRANSACTIONS_WITHOUT_TIMEOUT, lambda: sum(len(shard.without_timeout) for shard in shards())
    )
    registry.read_by(catalogue.OLDEST_WITHOUT_TIMEOUT, lambda: _oldest_seconds(broker, shards()))
    registry.read_by(catalogue.TRANSACTIONS_REFUSED, refused)


def _oldest_seconds(broker: Broker, shards: Collection[TransactionShard]) -> float:
    started = [transaction.started_ms for shard in shards for transaction in shard.without_timeout]
    return max(broker.clock.now_ms() - min(started), 0) / 1000 if started else 0.0
