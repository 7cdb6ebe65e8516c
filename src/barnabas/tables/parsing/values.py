"""Parse values into typed columns: whole blocks with Arrow's parsers, smaller ones where a block holds a bad value.

A parser rejects a whole block because of one row. The block is halved and each half parsed again, down to single rows:
a good row gets the same columns whatever its neighbours, and a bad one is found in about log2(rows) steps. A few JSON
values are not halved but read one by one, by a more lenient reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from barnabas.records.columnar import json_kernels as kernels
from barnabas.records.columnar.line_kernels import lines_of
from barnabas.tables.parsing.json_rows import JsonRow, RowReader, reason_of
from barnabas.tables.shapes import ValueFormat

# -- JSON objects without nesting ----------------------------------------------------------------------
# The most common events, parsed directly into columns, four times as fast as by Arrow's reader, which reads the
# remaining rows. Both produce the same columns for a row.

_KINDS: dict[pa.DataType, int] = {
    pa.string(): kernels.TEXT,
    pa.int8(): kernels.INTEGER,
    pa.int16(): kernels.INTEGER,
    pa.int32(): kernels.INTEGER,
    pa.int64(): kernels.INTEGER,
    pa.float64(): kernels.NUMBER,
    pa.bool_(): kernels.TRUTH,
}
MAX_FIELDS = 32  # two numbers are stored per field and row

Bytes = npt.NDArray[np.uint8]
Spans = npt.NDArray[np.int32]


class PlainRows(NamedTuple):
    """The columns, and the rows left to another parser: they are null."""

    columns: list[pa.Array]
    odd: npt.NDArray[np.bool_]


def is_plain(schema: pa.Schema) -> bool:
    """True if this module can read every field type."""
    return 0 < len(schema) <= MAX_FIELDS and all(field.type in _KINDS for field in schema)


class PlainReader:
    """Reads the fields of a schema that `is_plain`."""

    def __init__(self, schema: pa.Schema) -> None:
        names = [field.name.encode() for field in schema]
        self._types = [field.type for field in schema]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._bounds = np.cumsum([0, *map(len, names)], dtype=np.int32)
        self._kinds = np.array([_KINDS[kind] for kind in self._types], np.int32)

    def read(self, values: pa.Array) -> PlainRows:
        """Raises ArrowInvalid if text is not UTF-8."""
        rows = len(values)
        _, offsets_buffer, data_buffer = values.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + rows + 1]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        starts = np.empty((len(self._types), rows), np.int32)
        ends, odd = np.empty_like(starts), np.zeros(rows, np.uint8)
        kernels.find_values(
            offsets, data, _nulls(values), self._names, self._bounds, self._kinds, starts, ends, odd
        )
        columns = [
            _column(kind, data, starts[index], ends[index], odd) for index, kind in enumerate(self._types)
        ]
        return PlainRows(columns, odd.astype(np.bool_))


def _nulls(values: pa.Array) -> Bytes:
    if not values.null_count:
        return np.zeros(len(values), np.uint8)
    found: Bytes = values.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    return found


def _column(kind: pa.DataType, data: Bytes, starts: Spans, ends: Spans, odd: Bytes) -> pa.Array:
    valid = np.zeros(starts.size, np.uint8)
    if pa.types.is_string(kind):
        return _texts(data, starts, ends, valid)
    if pa.types.is_boolean(kind):
        there = starts != kernels.ABSENT
        truth = np.zeros(starts.size, np.bool_)
        truth[there] = data[starts[there]] == ord("t")
        return pa.array(truth, mask=~there)
    if pa.types.is_floating(kind):
        doubles = np.empty(starts.size, np.float64)
        kernels.read_doubles(data, starts, ends, doubles, valid, odd)
        return _numbers(kind, doubles, valid)
    longs = np.empty(starts.size, np.int64)
    max_value = (1 << kind.bit_width - 1) - 1
    kernels.read_integers(data, starts, ends, max_value, longs, valid, odd)
    return _numbers(kind, longs.astype(kind.to_pandas_dtype(), copy=False), valid)


def _texts(data: Bytes, starts: Spans, ends: Spans, valid: Bytes) -> pa.Array:
    there = starts != kernels.ABSENT
    out = np.empty(int((ends[there] - starts[there]).sum(dtype=np.int64)), np.uint8)
    offsets = np.empty(starts.size + 1, np.int32)
    kernels.copy_texts(data, starts, ends, offsets, out, valid)
    buffers = [_bits(valid), pa.py_buffer(offsets), pa.py_buffer(out)]
    column = pa.Array.from_buffers(pa.string(), starts.size, buffers)
    column.validate(full=True)
    return column


def _numbers(kind: pa.DataType, numbers: npt.NDArray[np.generic], valid: Bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [_bits(valid), pa.py_buffer(numbers)])


def _bits(valid: Bytes) -> pa.Buffer | None:
    """None, which is faster to use, if nothing is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fill_in(columns: list[pa.Array], odd: npt.NDArray[np.bool_], others: list[pa.Array]) -> list[pa.Array]:
    """Fill the odd rows of each column with the result of the other parser."""
    mask = pa.array(odd)
    return [pc.replace_with_mask(column, mask, other) for column, other in zip(columns, others, strict=True)]


FEW = 512  # JSON values: reading them one by one is faster than parsing halves with Arrow again and again

ID_BYTES = 5  # a zero byte and the schema id, the prefix written by registry serializers

Parser = Callable[[pa.Array], "Parsed"]


class Parsed(NamedTuple):
    """Fields of a block of values, one array each, and the values that did not match."""

    columns: list[pa.Array]
    bad: npt.NDArray[np.bool_]


class BadBlockError(ValueError):
    """Some value of the block does not match."""


def value_parser(form: ValueFormat, requested: list[str]) -> Parser:
    """Return a parser of a binary column. Only the wanted fields are parsed if the format allows it."""
    schema = pa.schema([field for field in form.fields if field.name in requested])
    if form.kind == "json":
        parse = _plain_first(schema, halving(_json_parser(schema), _json_row_parser(schema), FEW))
        return parse if form.registry is None else lambda values: parse(without_id(values))
    if form.kind == "csv":
        return halving(_csv_parser(form, schema), _nothing_of(schema))
    if form.kind in ("avro", "protobuf"):
        return halving(_single_parser(_single_reader(form, schema.names), schema), _nothing_of(schema))
    return halving(_string_parser, _nothing_of(schema))


def without_id(values: pa.Array) -> pa.Array:
    """Strip the schema id; values that do not begin with one become empty, which never matches."""
    payloads = [
        None if value is None else value[ID_BYTES:] if value[:1] == b"\0" else b""
        for value in values.to_pylist()
    ]
    return pa.array(payloads, pa.binary())


def explainer(form: ValueFormat) -> Callable[[bytes], str]:
    """Return a function that gives the reason why a value does not match."""
    if form.kind == "json":
        start = 0 if form.registry is None else ID_BYTES
        return lambda value: reason_of(value[start:], form.fields)
    if form.kind in ("avro", "protobuf"):
        return _refusal(_single_reader(form, form.fields.names))
    return lambda value: f"not valid {form.kind} for the schema"


def _refusal(read: Callable[[bytes], Any]) -> Callable[[bytes], str]:
    def explain(value: bytes) -> str:
        try:
            read(value)
        except ValueError as error:
            return str(error)
        return "the type of a field differs from its column"

    return explain


def halving(parse: Parser, otherwise: Parser, few: int = 1) -> Parser:
    """Pass blocks of at most `few` rows that `parse` rejects to the other parser, which accepts everything."""

    def parse_all(values: pa.Array) -> Parsed:
        try:
            return parse(values)
        except (BadBlockError, pa.ArrowInvalid):
            if len(values) <= few:
                return otherwise(values)
        half = len(values) // 2
        first, second = parse_all(values[:half]), parse_all(values[half:])
        columns = [pa.concat_arrays(pair) for pair in zip(first.columns, second.columns, strict=True)]
        return Parsed(columns, np.concatenate([first.bad, second.bad]))

    return parse_all


def _json_parser(schema: pa.Schema) -> Parser:
    # Arrow reads a date only from a number, and a time without a zone also from text with a zone: read these as text,
    # then cast.
    as_written = pa.schema([field.with_type(_without_dates(field.type)) for field in schema])
    options = arrow_json.ParseOptions(explicit_schema=as_written, unexpected_field_behavior="ignore")

    def parse(values: pa.Array) -> Parsed:
        text, bad = lines_of(values, json=True, empty_row=b"{}")
        # One block: Spark's tasks provide the parallelism.
        reading = arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1)
        table = arrow_json.read_json(pa.BufferReader(text), read_options=reading, parse_options=options)
        found = _parsed(table, as_written, bad)
        columns = [column.cast(field.type) for column, field in zip(found.columns, schema, strict=True)]
        for column in columns:
            column.validate(full=True)  # Arrow validates neither UTF-8 nor the digits of decimals
        return Parsed(columns, found.bad)

    return parse


def _plain_first(schema: pa.Schema, parse: Parser) -> Parser:
    """Parse plain rows with our loop, the others with the parser."""
    if not is_plain(schema):
        return parse
    reader = PlainReader(schema)

    def parse_all(values: pa.Array) -> Parsed:
        try:
            columns, odd = reader.read(values)
        except pa.ArrowInvalid:  # text is not UTF-8
            return parse(values)
        if not odd.any():
            return Parsed(columns, odd)
        others = parse(values.filter(pa.array(odd)))
        bad = odd.copy()
        bad[odd] = others.bad
        return Parsed(fill_in(columns, odd, others.columns), bad)

    return parse_all


def _json_row_parser(schema: pa.Schema) -> Parser:
    reader = RowReader(schema)

    def parse(values: pa.Array) -> Parsed:
        rows = [JsonRow({}, True) if value is None else reader.read(value) for value in values.to_pylist()]
        columns = [pa.array([row.fields.get(field.name) for row in rows], field.type) for field in schema]
        return Parsed(columns, np.array([not row.fits for row in rows], np.bool_))

    return parse


def _without_dates(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_dates(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_dates(field.type)) for field in kind])
    return kind


def _csv_parser(form: ValueFormat, schema: pa.Schema) -> Parser:
    names, everything = form.fields.names, form.fields
    parsing = arrow_csv.ParseOptions(delimiter=form.delimiter, ignore_empty_lines=False)
    converting = arrow_csv.ConvertOptions(
        column_types=everything, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
        include_columns=schema.names,
    )  # fmt: skip
    empty_row = form.delimiter.encode() * (len(names) - 1)

    def parse(values: pa.Array) -> Parsed:
        text, bad = lines_of(values, json=False, empty_row=empty_row)
        reading = arrow_csv.ReadOptions(use_threads=False, block_size=text.size + 1, column_names=names)
        table = arrow_csv.read_csv(
            pa.BufferReader(text), read_options=reading, parse_options=parsing, convert_options=converting
        )
        return _parsed(table, schema, bad)

    return parse


def _single_reader(form: ValueFormat, requested: list[str]) -> Callable[[bytes], dict[str, Any]]:
    """Reader for formats that are decoded value by value."""
    if form.kind == "avro":
        from barnabas.tables.parsing.avro import avro_reader

        return avro_reader(form)
    from barnabas.tables.parsing.protobuf import protobuf_reader

    return protobuf_reader(form, requested)


def _single_parser(read: Callable[[bytes], dict[str, Any]], schema: pa.Schema) -> Parser:
    def parse(values: pa.Array) -> Parsed:
        rows: list[dict[str, Any]] = []
        bad = np.zeros(len(values), np.bool_)
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append({} if value is None else read(value))
            except ValueError:
                rows.append({})
                bad[index] = True
        try:
            columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
        except (TypeError, OverflowError) as error:  # pyarrow's, for a value of another type
            raise BadBlockError(str(error)) from error
        return Parsed(columns, bad)

    return parse


def _nothing_of(schema: pa.Schema) -> Parser:
    """Nulls for values that do not match."""

    def parse(values: pa.Array) -> Parsed:
        return Parsed([pa.nulls(len(values), field.type) for field in schema], np.ones(len(values), np.bool_))

    return parse


def _string_parser(values: pa.Array) -> Parsed:
    return Parsed([values.cast(pa.string())], np.zeros(len(values), np.bool_))


def _parsed(table: pa.Table, schema: pa.Schema, bad: npt.NDArray[np.bool_]) -> Parsed:
    if table.num_rows != len(bad):
        raise BadBlockError(f"{len(bad)} values became {table.num_rows} rows")
    columns = [table.column(field.name).combine_chunks() for field in schema]
    return Parsed([_whole(column) for column in columns], bad)


def _whole(column: Any) -> pa.Array:
    """Some versions of pyarrow return a chunked array even for one chunk."""
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
