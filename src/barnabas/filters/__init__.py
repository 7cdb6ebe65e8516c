"""Record filters: a closed subset of CEL, with the variable names of kafbat's console.

    wanted = Filter("record.value.amount > 10 && record.headers.type == 'order'")
    wanted.matches(record)        # one record
    wanted.mask(columns, rows)    # columns of many, as numpy's booleans; needs pyarrow

A record for which the expression has no value (a missing field, a number compared with text) does not match;
`failures` counts them and keeps the first reason. Entry points: Filter, FilterError. Manual: docs/filters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.filters.binding import bind
from barnabas.filters.compiling import compile_node
from barnabas.filters.layout import Decode, RowLayout
from barnabas.filters.needles import may_match, needles_of
from barnabas.filters.parser import parse
from barnabas.filters.syntax import FilterError, Logic
from barnabas.filters.values import EvaluationError, kind_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["Filter", "FilterError"]


@dataclass
class Failures:
    """Count of records that a filter could not evaluate, with the first reason."""

    count: int = 0
    first: str = ""

    def add(self, reason: str, count: int = 1) -> None:
        self.first = self.first or reason
        self.count += count

    def __str__(self) -> str:
        return f"{self.count:,} records could not be evaluated and do not match; the first: {self.first}"


class Filter:
    """A compiled filter. `decode_value` replaces the JSON decoder: it returns maps, or raises ValueError."""

    def __init__(self, text: str, decode_value: Decode | None = None) -> None:
        self.text = text
        self.failures = Failures()
        self.tree = bind(parse(text))
        self._decode_value = decode_value
        self._layout = RowLayout(self.tree, decode_value)
        self._evaluate = compile_node(self.tree, self._layout)
        self._needles = needles_of(self.tree) if decode_value is None else None
        self._columnar: Any = None

    @property
    def sources(self) -> set[str]:
        """Parts of a record that the filter reads: key, value, headers, timestamp, partition, offset."""
        return {part.source for part in self._layout.parts}

    def matches(self, record: Any) -> bool:
        """Evaluate one record: any object with the attributes of ConsumedRecord."""
        if self._needles is not None and not may_match(record.value, self._needles):
            return False
        row = [part.load(getattr(record, part.source)) for part in self._layout.parts]
        try:
            found = self._evaluate(row + self._layout.variables)
        except EvaluationError as error:
            self.failures.add(str(error))
            return False
        if found.__class__ is not bool:
            self.failures.add(f"the result is a {kind_of(found)}, not true or false")
        return found is True

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> npt.NDArray[np.bool_]:
        """Evaluate columns, one per name in `sources`, with the types of `records.columnar`."""
        if self._columnar is None:
            from barnabas.filters.masks import ColumnFilter

            parts = (
                self.tree.parts
                if isinstance(self.tree, Logic) and self.tree.operator == "&&"
                else (self.tree,)
            )
            self._columnar = ColumnFilter(parts, self._decode_value, self.failures)
        found: npt.NDArray[np.bool_] = self._columnar.mask(columns, rows)
        return found
