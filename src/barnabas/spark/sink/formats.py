"""`value.format` and `key.format`: columns that become framed values of a schema registry.

The driver registers the schemas before a batch starts, once per process and schema; tasks only encode.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.spark.options import OptionError, Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from barnabas.tables.encoding import Encode, FramedFormat, WriteFormat

FORMATS = ("avro", "json", "protobuf")
AS_IS = "__"
"""Prefix of a column with bytes, written instead of the encoded column where they are not null: dead letters."""
SUBJECTS = "__subjects"
"""Internal option of connectors: the topic that names the subjects, if rows have a column `topic`."""
LATEST_SECONDS = 60.0  # between two requests for the newest version (`use.latest.version`)

_known: dict[tuple[WriteFormat, str | None, pa.DataType], tuple[FramedFormat, float]] = {}


def write_formats(options: Options) -> dict[str, WriteFormat]:
    """Formats by column; OptionError for options that contradict each other, or without a registry."""
    kinds = {name: options.choice(f"{name}.format", FORMATS) for name in ("key", "value")}
    return {name: _format(options, name, kind) for name, kind in kinds.items() if kind is not None}


def _format(options: Options, column: str, kind: str) -> WriteFormat:
    from barnabas.tables import SchemaError
    from barnabas.tables.encoding import STRATEGIES, WriteFormat, check_record_name

    uses_latest = options.flag("use.latest.version")
    registers = (
        options.flag("auto.register.schemas") if "auto.register.schemas" in options else not uses_latest
    )
    if uses_latest and registers:
        raise OptionError(
            "options 'auto.register.schemas' and 'use.latest.version' contradict each other: set one of them"
        )
    strategy = (options.text(f"{column}.subject.name.strategy") or STRATEGIES[0]).rpartition(".")[2]
    if strategy not in STRATEGIES:
        raise OptionError(
            f"option '{column}.subject.name.strategy' must be one of {', '.join(STRATEGIES)}, not {strategy!r}"
        )
    record = options.text(f"{column}.record.name") or ""
    try:
        return WriteFormat(
            kind,  # type: ignore[arg-type]  # one of FORMATS
            column == "key",
            strategy,
            check_record_name(record, f"{column}.record.name") if record else "",
            registers,
            uses_latest,
            options.flag("normalize.schemas"),
            options.registry(),
        )
    except SchemaError as error:
        raise OptionError(str(error)) from None


def registered_formats(
    formats: Mapping[str, WriteFormat], schema: StructType, topic: str | None
) -> tuple[tuple[str, FramedFormat], ...]:
    if not formats:
        return ()
    from pyspark.sql.pandas.types import to_arrow_schema

    missing = [name for name in formats if name not in schema.names]
    if missing:
        raise OptionError(f"option '{missing[0]}.format' is set, and the rows have no column {missing[0]!r}")
    types = to_arrow_schema(schema, timezone="UTC")
    return tuple(
        (name, _registered(wanted, topic, types.field(name).type)) for name, wanted in formats.items()
    )


def _registered(wanted: WriteFormat, topic: str | None, kind: pa.DataType) -> FramedFormat:
    """Registered once per process: each micro-batch of a query plans its writer again."""
    from barnabas.client import ClientError
    from barnabas.security.authn import SecuritySettingError
    from barnabas.tables import SchemaError
    from barnabas.tables.encoding import framed_format

    key = wanted, topic, kind
    known = _known.get(key)
    if known is not None and (not wanted.uses_latest or time.monotonic() - known[1] < LATEST_SECONDS):
        return known[0]
    try:
        found = framed_format(wanted, topic, kind)
    except (SchemaError, ClientError, SecuritySettingError) as error:
        raise OptionError(str(error)) from None
    _known[key] = found, time.monotonic()
    return found


class ColumnEncoders:
    """Encoders of one task, made for the type of its first rows."""

    def __init__(self, framed: tuple[tuple[str, FramedFormat], ...]) -> None:
        self._framed = dict(framed)
        self._encoders: dict[str, Encode] = {}

    def encoded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with bytes in the columns that have a format."""
        if not self._framed:
            return rows
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name, framed in self._framed.items():
            if name not in self._encoders:
                self._encoders[name] = framed.encoder(columns[name].type)
            data = self._encoders[name](columns[name])
            as_is = columns.pop(AS_IS + name, None)
            columns[name] = data if as_is is None else pc.coalesce(as_is.cast(pa.binary()), data)
        return pa.RecordBatch.from_pydict(columns)
