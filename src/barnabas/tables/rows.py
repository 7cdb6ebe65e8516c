"""Decoded columns to record batches: exactly a shape's schema, in its order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import BITS, RecordColumns
from barnabas.tables.errors import BadValueError
from barnabas.tables.parsing.values import Parsed, explainer, value_parser
from barnabas.tables.shapes import DROP_MALFORMED, FAIL_FAST, RowShape, ValueFormat

BLOCK = 1 << 16  # rows of a constant column, built once and shared


class RowBuilder:
    """One per task. `bad` counts the values that do not match."""

    def __init__(self, shape: RowShape) -> None:
        self._schema = shape.schema
        self._value = shape.value
        self.bad = 0
        self._sources = {name: shape.record_column(name) for name in shape.schema.names}
        self.wanted = {column for column in self._sources.values() if column in BITS}
        self._typed: list[str] = []
        if shape.value is not None:
            self._prepare(shape.value)

    def _prepare(self, form: ValueFormat) -> None:
        own = [name for name, column in self._sources.items() if column is None]
        self._typed = [name for name in form.fields.names if name in own]
        # A value is parsed only for its fields, or to validate it.
        self._parse = value_parser(form, self._typed) if own else None
        if own:
            self.wanted |= {"value"}
        if form.mode == FAIL_FAST:
            self.wanted |= {"offset"}

    def batch(self, columns: RecordColumns, tp: TopicPartition) -> pa.RecordBatch:
        made = self._record_columns(columns, tp)
        if self._value is None or self._parse is None:
            return self._assemble(made)
        values = columns.arrays["value"]
        parsed = self._parse(values)
        made.update(zip(self._typed, parsed.columns, strict=True))
        made.update(self._corrupt(values, parsed))
        made.update(self._reasons(values, parsed))
        batch = self._assemble(made)
        if not parsed.bad.any():
            return batch
        self.bad += int(parsed.bad.sum())
        if self._value.mode == FAIL_FAST:
            raise self._failure(columns, parsed, tp)
        return batch.filter(pa.array(~parsed.bad)) if self._value.mode == DROP_MALFORMED else batch

    def _record_columns(self, columns: RecordColumns, tp: TopicPartition) -> dict[str, pa.Array]:
        made = {}
        for name, column in self._sources.items():
            if column == "topic":
                made[name] = constant(tp.topic, pa.string(), columns.rows)
            elif column == "partition":
                made[name] = constant(tp.partition, pa.int32(), columns.rows)
            elif column is not None:
                made[name] = columns.arrays[column]
        return made

    def _corrupt(self, values: pa.Array, parsed: Parsed) -> dict[str, pa.Array]:
        """Raw value of each row that does not match, if the schema has a column for it."""
        assert self._value is not None
        name = self._value.corrupt_column
        if self._sources.get(name, "") is not None:
            return {}
        kind = self._schema.field(name).type
        if not parsed.bad.any():
            return {name: pa.nulls(len(values), kind)}
        kept = pc.if_else(pa.array(parsed.bad), values, pa.scalar(None, pa.binary()))
        if pa.types.is_binary(kind):
            return {name: kept}
        text = [None if value is None else value.decode("utf-8", "replace") for value in kept.to_pylist()]
        return {name: pa.array(text, kind)}

    def _reasons(self, values: pa.Array, parsed: Parsed) -> dict[str, pa.Array]:
        """Reason why a value does not match, if the schema has a column for it."""
        assert self._value is not None
        name = self._value.reason_column
        if name is None or name not in self._sources:
            return {}
        if not parsed.bad.any():
            return {name: pa.nulls(len(values), pa.string())}
        explain = self._explain
        rows = zip(values.to_pylist(), parsed.bad.tolist(), strict=True)
        return {name: pa.array([explain(value) if bad else None for value, bad in rows], pa.string())}

    @cached_property
    def _explain(self) -> Callable[[bytes], str]:
        assert self._value is not None
        return explainer(self._value)

    def _assemble(self, made: dict[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([made[name] for name in self._schema.names], schema=self._schema)

    def _failure(self, columns: RecordColumns, parsed: Parsed, tp: TopicPartition) -> BadValueError:
        assert self._value is not None
        row = int(parsed.bad.argmax())
        value = columns.arrays["value"][row].as_py()
        shown = value[:80].decode("utf-8", "replace")
        return BadValueError(
            f"the value at offset {columns.arrays['offset'][row].as_py()} of {tp} is not valid "
            f"{self._value.kind} for the schema: {shown!r} "
            f"(mode FAILFAST; PERMISSIVE gives nulls and the column {self._value.corrupt_column!r})"
        )


@lru_cache(maxsize=256)
def _block(value: str | int, kind: pa.DataType, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), size)


def constant(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of one value: a slice of a shared array, because arrays are immutable."""
    size = BLOCK
    while size < rows:
        size *= 2
    return _block(value, kind, size)[:rows]
