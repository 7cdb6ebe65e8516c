"""Mask of a filter over columns: vectorized first, then byte search, then row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.filters.compiling import compile_node
from barnabas.filters.layout import Decode, RowLayout, SlotSource
from barnabas.filters.needles import needles_of
from barnabas.filters.syntax import Logic, SyntaxNode
from barnabas.filters.values import EvaluationError, kind_of
from barnabas.filters.vectors import (
    FAILED,
    FALSE,
    TRUE,
    Columns,
    States,
    all_of,
    candidates,
    is_vector,
    states_of,
)

if TYPE_CHECKING:
    from barnabas.filters import Failures


class ColumnFilter:
    """A conjunction, split into the parts that Arrow can evaluate and the rest."""

    def __init__(
        self, parts: tuple[SyntaxNode, ...], decode_value: Decode | None, failures: Failures
    ) -> None:
        usable = [part for part in parts if is_vector(part)]
        rest = tuple(part for part in parts if not is_vector(part))
        self._vectors = usable
        self._failures = failures
        self._residual = _joined(rest) if rest else None
        if self._residual is not None:
            self._layout = RowLayout(self._residual, decode_value)
            self._evaluate = compile_node(self._residual, self._layout)
            self._needles = needles_of(self._residual) if decode_value is None else None

    def mask(self, columns: Columns, rows: int) -> npt.NDArray[np.bool_]:
        states = np.full(rows, TRUE, np.int8)
        if self._vectors and rows:
            states = all_of([states_of(part, columns, rows) for part in self._vectors])
        if self._residual is not None and rows:
            states = self._with_rest(states, columns)
        failed = int((states == FAILED).sum())
        if failed:
            self._failures.add("no such field, or no timestamp", failed)
        found: npt.NDArray[np.bool_] = states == TRUE
        return found

    def _with_rest(self, states: States, columns: Columns) -> States:
        """Evaluate only the rows that neither a vector nor the byte search has decided."""
        open_rows = states != FALSE
        if self._needles is not None:
            open_rows &= candidates(columns["value"], self._needles)
        (indices,) = np.nonzero(open_rows)
        decided = np.full(len(states), FALSE, np.int8)
        decided[indices] = self._rows(columns, indices)
        return all_of([states, decided])

    def _rows(self, columns: Columns, indices: npt.NDArray[np.intp]) -> list[int]:
        taken = [_loaded(part, columns, indices) for part in self._layout.parts]
        variables = self._layout.variables
        if not taken:
            return [self._row([*variables]) for _ in indices]
        return [self._row([*row, *variables]) for row in zip(*taken, strict=True)]

    def _row(self, row: list[object]) -> int:
        try:
            found = self._evaluate(row)
        except EvaluationError as error:
            self._failures.first = self._failures.first or str(error)
            return FAILED
        if found.__class__ is not bool:
            self._failures.first = self._failures.first or f"the result is a {kind_of(found)}"
            return FAILED
        return TRUE if found else FALSE


def _joined(parts: tuple[SyntaxNode, ...]) -> SyntaxNode:
    return parts[0] if len(parts) == 1 else Logic("&&", parts, column=parts[0].column)


def _loaded(part: SlotSource, columns: Columns, indices: npt.NDArray[np.intp]) -> list[object]:
    array = columns[part.source]
    if part.source == "timestamp":
        array = pa.array(array.view(pa.int64()).to_numpy() // 1000)
    return list(map(part.load, array.take(pa.array(indices)).to_pylist()))
