"""Broker settings of tiered storage."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.tiering import copies
from barnabas.replication import RemoteLimits
from barnabas.tiering.writing import WriterSettings


class TieringSettings(NamedTuple):
    """Settings that cannot change while the broker runs."""

    url: str
    options: dict[str, str]
    cache_bytes: int
    reader_threads: int


def tiering_settings(config: BrokerConfig) -> TieringSettings:
    """Requires that tiered storage is enabled."""
    return TieringSettings(
        url=config["barnabas.remote.storage.url"],
        options=config.store_options,
        cache_bytes=config["barnabas.remote.cache.bytes"],
        reader_threads=config["remote.log.reader.threads"],
    )


def copying_limits(config: BrokerConfig) -> tuple[int, int]:
    """Return (bytes per second, concurrent uploads) of all partitions together."""
    return (
        config["remote.log.manager.copy.max.bytes.per.second"],
        config["remote.log.manager.copier.thread.pool.size"],
    )


def remote_limits(config: BrokerConfig) -> RemoteLimits:
    return RemoteLimits(
        fetch_seconds=config["remote.fetch.max.wait.ms"] / 1000,
        list_offsets_seconds=config["remote.list.offsets.request.timeout.ms"] / 1000,
    )


def writer_settings(config: BrokerConfig, topic: LogConfig) -> WriterSettings:
    return WriterSettings(
        copies=copies(topic),
        delete_delay_ms=config["barnabas.remote.delete.delay.ms"],
        interval_seconds=config["remote.log.manager.task.interval.ms"] / 1000,
    )
