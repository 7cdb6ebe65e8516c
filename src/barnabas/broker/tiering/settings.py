"""From the settings of a broker to what tiered storage takes of them."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.tiering import copies
from barnabas.replication.tiered_reads import RemoteLimits
from barnabas.tiering.writing import WriterSettings


class TieringSettings(NamedTuple):
    """What does not change while a broker runs."""

    url: str
    options: dict[str, str]
    cache_bytes: int
    reader_threads: int


def tiering_settings(config: BrokerConfig) -> TieringSettings:
    """Of a broker with tiered storage."""
    return TieringSettings(
        url=config["barnabas.remote.storage.url"],
        options=config.store_options,
        cache_bytes=config["barnabas.remote.cache.bytes"],
        reader_threads=config["remote.log.reader.threads"],
    )


def copying_limits(config: BrokerConfig) -> tuple[int, int]:
    """(bytes per second, uploads at once) of all partitions."""
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
