"""How a broker is connected to its cluster: through ZooKeeper, or, when it runs alone, through a file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from barnabas.cluster.adoption import adopt
from barnabas.cluster.deltas import Delta
from barnabas.cluster.features import METADATA_VERSION, Levels
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.membership import ClusterConnection, LocalMembership
from barnabas.cluster.store import METADATA_FOLDER, FileMetadataStore
from barnabas.config.broker import BrokerConfig
from barnabas.controller.healing import HealingSettings
from barnabas.common.files import FileSystem
from barnabas.log.dirs.manager import LogManager
from barnabas.common.types import new_uuid, uuid_to_text


def connection_from(
    config: BrokerConfig, files: FileSystem, features: Levels, image: Callable[[], MetadataImage]
) -> ClusterConnection:
    """The connection that `zookeeper.connect` asks for; without it, that of a node alone."""
    if not config["zookeeper.connect"]:
        store = FileMetadataStore(files, os.path.join(config.log_dirs[0], METADATA_FOLDER))
        return ClusterConnection(store, LocalMembership(image))
    from barnabas.cluster.zookeeper.membership import ZooKeeperConnection  # not every installation has kazoo

    _, newest_level = features[METADATA_VERSION]
    return ZooKeeperConnection(config, newest_level)


def found_cluster(config: BrokerConfig, logs: LogManager) -> tuple[str, list[Delta]]:
    """The id of a new cluster, and what is in our folders already when it begins."""
    cluster_id = logs.cluster_id or config["barnabas.cluster.id"] or uuid_to_text(new_uuid())
    return cluster_id, adopt(logs.fs, config.log_dirs, config.node_id)


def healing_settings_from(config: BrokerConfig) -> HealingSettings:
    replace_after_ms = config["barnabas.replica.replace.after.ms"]
    return HealingSettings(
        None if replace_after_ms < 0 else replace_after_ms / 1000,
        config["barnabas.balance.auto"],
        config["barnabas.balance.quiet.ms"] / 1000,
        config["barnabas.balance.partitions.at.once"],
    )


def balance_seconds(config: BrokerConfig) -> float | None:
    """How often the controller gives leadership back to preferred replicas; None for never."""
    if not config["auto.leader.rebalance.enable"]:
        return None
    return float(config["leader.imbalance.check.interval.seconds"])
