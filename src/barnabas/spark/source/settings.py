"""The options of a read, understood: a value that driver and tasks share, so it must be picklable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.common.types import TopicPartition
from barnabas.spark.client_settings import CLIENT_PREFIX, SparkClientSettings
from barnabas.spark.options import OptionError, Options, parse_duration_ms
from barnabas.spark.remote_settings import RemoteSettings
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    OffsetSpec,
    check_batch_moments,
    flat,
    moment_option,
    parse_partitions,
)

SPAN = "__span"
"""Internal option of the runner: `{"start": {...}, "end": {...}}` with offsets."""
WAYS = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class TopicSelection:
    """Selection of partitions, in one of three ways."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    @property
    def text(self) -> str:
        """For names and messages."""
        names = self.topics or tuple(sorted({tp.topic for tp in self.assigned}))
        return ",".join(names) or self.pattern or ""


@dataclass(frozen=True)
class SourceSettings:
    client: SparkClientSettings
    subscription: TopicSelection
    starting: OffsetSpec
    ending: OffsetSpec
    latest_when_no_match: bool
    fail_on_data_loss: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay: float
    min_partitions: int | None
    max_records: int | None
    shared_records: int
    group: str | None
    poll_timeout: float
    offset_attempts: int
    offset_interval: float
    remote: RemoteSettings | None = None
    """If set, no broker is used."""
    span: tuple[Offsets, Offsets] | None = None
    """Start and end of a stream that reads a part of its topics; partitions without one are not read."""

    @classmethod
    def parse(cls, raw_options: Mapping[str, str], *, streaming: bool) -> SourceSettings:
        options = Options(raw_options, "source")
        starting = moment_option(options, "starting", LATEST if streaming else EARLIEST)
        ending = moment_option(options, "ending", LATEST)
        if streaming:
            _refuse_ending(options)
        else:
            check_batch_moments(starting, ending)
        remote = RemoteSettings.parse(options)
        if remote is not None and streaming:
            remote.check_streaming()
        client = _client(options, remote)
        subscription = parse_subscription(options)
        max_offsets = options.number("maxOffsetsPerTrigger", 1)
        min_offsets = options.number("minOffsetsPerTrigger", 0)
        if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
            raise OptionError(
                f"minOffsetsPerTrigger ({min_offsets}) is higher than maxOffsetsPerTrigger ({max_offsets})"
            )
        return cls(
            client,
            subscription,
            starting,
            ending,
            options.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
            options.flag("failOnDataLoss"),
            max_offsets,
            min_offsets,
            parse_duration_ms(options.require("maxTriggerDelay")) / 1000,
            options.number("minPartitions", 1),
            options.number("maxRecordsPerPartition", 1),
            options.number("sharedTaskRecords") or 0,
            None if remote is not None else _group(options, client, subscription),
            (options.number("kafkaConsumer.pollTimeoutMs") or 0) / 1000,
            options.number("fetchOffset.numRetries", 1) or 1,
            (options.number("fetchOffset.retryIntervalMs") or 0) / 1000,
            remote,
            _span(options),
        )


def _span(options: Options) -> tuple[Offsets, Offsets] | None:
    text = options.internal(SPAN)
    if text is None:
        return None
    found = json.loads(text)
    return flat(found["start"]), flat(found["end"])


def _client(options: Options, remote: RemoteSettings | None) -> SparkClientSettings:
    if remote is None:
        return options.client_settings()
    return SparkClientSettings.without_brokers(dict(options.prefixed(CLIENT_PREFIX)))


def parse_subscription(options: Options) -> TopicSelection:
    raw_options = [way for way in WAYS if way in options]
    if len(raw_options) != 1:
        problem = (
            "one of them must be given"
            if not raw_options
            else f"only one of them can be given, not {', '.join(raw_options)}"
        )
        raise OptionError(f"options {', '.join(WAYS)}: {problem}")
    text = options.require(raw_options[0])
    if raw_options[0] == "assign":
        return TopicSelection(assigned=tuple(parse_partitions(text)))
    if raw_options[0] == "subscribePattern":
        return TopicSelection(pattern=text)
    topics = tuple(name.strip() for name in text.split(",") if name.strip())
    if not topics:
        raise OptionError(f"option 'subscribe' names no topic: {text!r}")
    return TopicSelection(topics=topics)


def _refuse_ending(options: Options) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in options:
            raise OptionError(f"option {name!r} is for batch reads: a stream has no end")


def _group(options: Options, client: SparkClientSettings, subscription: TopicSelection) -> str | None:
    """Consumer group for the progress of the query; None if progress is not committed."""
    if not options.flag("commitProgress"):
        return None
    return client.group_id or f"{options.text('groupIdPrefix')}-{subscription.text}"
