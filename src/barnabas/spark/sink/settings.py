"""Options and columns of a sink, checked before anything is written."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.records.compression import CODEC_BY_NAME, Codec
from barnabas.spark.client_settings import SparkClientSettings
from barnabas.spark.options import OptionError, Options
from barnabas.spark.sink.formats import AS_IS, SUBJECTS, registered_formats, write_formats
from barnabas.spark.sink.protocol import TornBatchPolicy

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from barnabas.tables.encoding import FramedFormat, WriteFormat

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
MAX_REQUEST = (
    1024 * 1024
)  # Kafka's max.request.size, which limits a batch too; a record alone only if it is set
HANDED_OVER = 64 * 1024  # bytes of a task's rows that travel through the driver instead of in a transaction
_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)  # as Hadoop's Path
_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

_COLUMNS = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class SinkSettings:
    client: SparkClientSettings
    columns: tuple[str, ...]
    topic: str | None = None
    delivery: str = EXACTLY_ONCE
    sink: str = ""
    checkpoint: str = ""
    torn: TornBatchPolicy = TornBatchPolicy.FAIL
    handed_over: int = HANDED_OVER
    codec: int = Codec.NONE
    acks: int = -1
    largest_request: int | None = None
    """None: batches of at most MAX_REQUEST_BYTES; a larger record is sent alone, if its topic accepts it."""
    timeout_ms: int | None = None
    batch_of: str = ""
    """The query whose batch a job writes; empty for an independent job."""
    batch_number: int = 0
    framed: tuple[tuple[str, FramedFormat], ...] = ()
    """Registered schemas of the columns `key` and `value` that tasks encode."""

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE


def read_settings(raw_options: Mapping[str, str], schema: StructType, *, is_streaming: bool) -> SinkSettings:
    options = Options(raw_options, "sink")
    delivery = options.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE)) or EXACTLY_ONCE
    topic = options.text("topic")
    handed_over = options.number("handedOverBytes")
    checkpoint = normal_location(options.text("checkpointLocation") or "")
    formats = write_formats(options)
    return SinkSettings(
        client=options.client_settings(),
        columns=_columns(schema, topic, formats, with_timestamp=options.flag("includeTimestamp")),
        framed=registered_formats(formats, schema, topic or options.internal(SUBJECTS)),
        topic=topic,
        delivery=delivery,
        sink=_sink_name(options, checkpoint, needed=is_streaming and delivery == EXACTLY_ONCE),
        checkpoint=checkpoint,
        torn=TornBatchPolicy(
            options.choice("tornBatch", [one.value for one in TornBatchPolicy]) or TornBatchPolicy.FAIL.value
        ),
        handed_over=HANDED_OVER if handed_over is None else handed_over,
        codec=_word(options, "compression.type", CODEC_BY_NAME, "none"),
        acks=_word(options, "acks", _ACKS, "all"),
        largest_request=_number(options, "max.request.size"),
        timeout_ms=_number(options, "transaction.timeout.ms"),
        batch_of=_batch_of(options, delivery),
        batch_number=options.number("batchNumber") or 0,
    )


def _batch_of(options: Options, delivery: str) -> str:
    """A repeated batch of a query must be recognized by sink and number."""
    query, number = options.text("batchOf") or "", options.number("batchNumber")
    if not query and number is None:
        return ""
    if not query or number is None or not options.text("sinkId") or delivery != EXACTLY_ONCE:
        raise OptionError(
            "a batch of a query has the options 'batchOf' (its id), 'batchNumber' and 'sinkId', and is written "
            "exactly once"
        )
    return query


def normal_location(location: str) -> str:
    """Canonical form of a location on this host: /a, file:///a and, inside /, a are the same to Spark."""
    found = _LOCATION.fullmatch(location)
    if found is None or not location:
        return location
    scheme, authority, path = (found[1] or "").lower(), found[2] or "", re.sub("/+", "/", found[3])
    if scheme in ("", "file") and not authority:
        return os.path.abspath(path).rstrip("/")
    prefix = (f"{scheme}:" if scheme else "") + (f"//{authority}" if found[2] is not None else "")
    return prefix + (posixpath.normpath(path) if path else "").rstrip("/")


def _sink_name(options: Options, checkpoint: str, *, needed: bool) -> str:
    """Name of the sink in transactional ids and in its state: the same after every restart."""
    if raw_options := options.text("sinkId"):
        return raw_options
    if options.text("checkpointLocation"):
        return f"spark-{digest(checkpoint)}"
    if needed:
        raise OptionError(
            "an exactly-once sink must be identified after a restart: set the option "
            "'checkpointLocation' or 'sinkId', or set 'delivery' to 'at-least-once'"
        )
    return ""


def digest(location: str) -> str:
    return hashlib.sha256(location.encode()).hexdigest()[:16]


def _columns(
    schema: StructType, topic: str | None, formats: Mapping[str, WriteFormat], *, with_timestamp: bool
) -> tuple[str, ...]:
    types = {one.name: one.dataType.simpleString() for one in schema.fields}
    if "value" not in types:
        raise OptionError(f"missing column 'value'; the columns are {', '.join(types) or 'none'}")
    if topic is None and "topic" not in types:
        raise OptionError("no target topic: set the option 'topic', or add a column 'topic'")
    wanted = [name for name in _COLUMNS if name in types]
    if not with_timestamp and "timestamp" in wanted:
        wanted.remove("timestamp")  # as in Spark's Kafka sink, which writes the current time
    if topic is not None and "topic" in wanted:
        wanted.remove("topic")
    as_is = [AS_IS + name for name in formats if AS_IS + name in types]
    for name in wanted:
        if name not in formats:
            _check_type(name, types[name])
    return (*wanted, *as_is)


def _check_type(name: str, kind: str) -> None:
    if kind in _COLUMNS[name]:
        return
    hint = f", or set the option '{name}.format'" if name in ("key", "value") else ""
    raise OptionError(
        f"column {name!r} must be of type {' or '.join(_COLUMNS[name])}, not {kind}: cast it first{hint}"
    )


def _word(options: Options, name: str, known: Mapping[str, Any], default: str) -> int:
    word = (options.client_text(name) or default).lower()
    if word not in known:
        raise OptionError(f"option 'kafka.{name}' must be one of {', '.join(known)}, not {word!r}")
    return int(known[word])


def _number(options: Options, name: str) -> int | None:
    text = options.client_text(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"option 'kafka.{name}' must be a whole number above zero, not {text!r}")
    return int(text)
