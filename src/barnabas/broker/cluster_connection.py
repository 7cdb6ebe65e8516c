"""Connection of a broker to its cluster: ZooKeeper, or a local metadata file on a standalone node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from barnabas.cluster import METADATA_FOLDER, ClusterConnection, FileMetadataStore, LocalMembership, adopt
from barnabas.cluster.deltas import Delta
from barnabas.cluster.features import METADATA_VERSION, Levels
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.files import FileSystem
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.config.broker import BrokerConfig
from barnabas.controller import HealingSettings
from barnabas.log.dirs import LogManager
from barnabas.replication import Flusher, IsrProposal, Partition

# -- View of the cluster for partitions: image, session state, ISR changes -----------------------------


class BrokerView:
    def __init__(
        self,
        clock: Clock,
        flusher: Flusher,
        *,
        image: Callable[[], MetadataImage],
        want_isr: Callable[[Partition, IsrProposal], None],
        expect_fetches: Callable[[Iterable[int]], None],
        on_appends_undone: Callable[[], None],
    ) -> None:
        self.is_fenced = False
        self.monotonic = clock.monotonic
        self.when_flushed = flusher.when_flushed
        self.isr_wanted = want_isr
        self.followed_by = expect_fetches
        self._image = image
        self._on_appends_undone = on_appends_undone

    def eligible_epoch(self, broker_id: int) -> int | None:
        state = self._image().brokers.get(broker_id)
        return state.epoch if state is not None and state.can_lead else None

    def on_one_host(self, brokers: Iterable[int]) -> bool:
        known = self._image().brokers
        hosts = {known[broker_id].host if broker_id in known else "" for broker_id in brokers}
        return len(hosts) == 1 and "" not in hosts

    def appends_undone(self, partition: Partition) -> None:
        self._on_appends_undone()


def connection_from(
    config: BrokerConfig, files: FileSystem, features: Levels, image: Callable[[], MetadataImage]
) -> ClusterConnection:
    """Return a ZooKeeper connection if `zookeeper.connect` is set, otherwise a standalone one."""
    if not config["zookeeper.connect"]:
        store = FileMetadataStore(files, os.path.join(config.log_dirs[0], METADATA_FOLDER))
        return ClusterConnection(store, LocalMembership(image))
    from barnabas.cluster.zookeeper import ZooKeeperConnection  # kazoo is an optional dependency

    _, newest_level = features[METADATA_VERSION]
    return ZooKeeperConnection(config, newest_level)


def found_cluster(config: BrokerConfig, logs: LogManager, node_id: int) -> tuple[str, list[Delta]]:
    """Return the id of a new cluster, and deltas that adopt the topics found in the log dirs for this broker."""
    cluster_id = logs.cluster_id or config["barnabas.cluster.id"] or uuid_to_text(new_uuid())
    return cluster_id, adopt(logs.fs, config.log_dirs, node_id)


def healing_settings_from(config: BrokerConfig) -> HealingSettings:
    replace_after_ms = config["barnabas.replica.replace.after.ms"]
    return HealingSettings(
        None if replace_after_ms < 0 else replace_after_ms / 1000,
        config["barnabas.balance.auto"],
        config["barnabas.balance.quiet.ms"] / 1000,
        config["barnabas.balance.partitions.at.once"],
    )


def balance_seconds(config: BrokerConfig) -> float | None:
    """Interval of preferred leader elections in seconds; None if they are disabled."""
    if not config["auto.leader.rebalance.enable"]:
        return None
    return float(config["leader.imbalance.check.interval.seconds"])
