"""Row transforms as Spark columns. A declaration cannot name Python classes or functions.

Rows with `_error` skip all transforms: they go to the dead-letter topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from barnabas.connect.endpoints import ERROR, ROUTE
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FIELD = re.compile(r"\{([^{}]*)\}")
MAX_SHOWN = 100  # characters of a value in the reason of a dead letter


class Transform(Protocol):
    kind: ClassVar[str]

    def problem(self) -> str | None:
        """Return a problem with the settings that can be detected without rows."""

    def apply(self, rows: DataFrame) -> DataFrame: ...


@dataclass(frozen=True)
class Rename:
    """`{rename: {old: new}}`"""

    kind: ClassVar[str] = "rename"
    names: dict[str, str]

    def problem(self) -> str | None:
        reserved = [new for new in self.names.values() if new in (ERROR, ROUTE)]
        return f"`{reserved[0]}` is a reserved name" if reserved else None

    def apply(self, rows: DataFrame) -> DataFrame:
        _require(self.kind, self.names, rows)
        taken = set(self.names.values()) & (set(rows.columns) - set(self.names))
        if taken:
            raise PipelineError(
                f"`rename` would duplicate the column {min(taken)}: drop the other one first."
            )
        return rows.withColumnsRenamed(self.names)


class MaskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    fields: list[str]
    keep_last: int = 0
    letter: str = "*"


@dataclass(frozen=True)
class MaskTransform:
    """`{mask: {fields: [card], keep_last: 4}}`: replaces all but the last characters with stars."""

    kind: ClassVar[str] = "mask"
    settings: MaskSettings

    def problem(self) -> str | None:
        if not self.settings.fields:
            return "`fields` is required: the fields to mask"
        if self.settings.keep_last < 0:
            return "`keep_last` must be 0 or more"
        return None if len(self.settings.letter) == 1 else "`letter` must be a single character"

    def apply(self, rows: DataFrame) -> DataFrame:
        _require(self.kind, self.settings.fields, rows)
        return rows.withColumns({name: self._masked(name) for name in self.settings.fields})

    def _masked(self, name: str) -> Column:
        from pyspark.sql import functions as F

        text = F.col(_quoted(name)).cast("string")
        # A value not longer than `keep_last` is masked completely: its last characters are the whole secret.
        hidden = F.when(F.length(text) > self.settings.keep_last, F.length(text) - self.settings.keep_last)
        stars = F.repeat(F.lit(self.settings.letter), hidden.otherwise(F.length(text)))
        if not self.settings.keep_last:
            return stars
        shown = F.when(
            F.length(text) > self.settings.keep_last, F.right(text, F.lit(self.settings.keep_last))
        )
        return F.concat(stars, shown.otherwise(F.lit("")))


@dataclass(frozen=True)
class FilterTransform:
    """`{filter: "amount > 0"}`: an SQL condition; rows for which it is false or NULL are dropped."""

    kind: ClassVar[str] = "filter"
    condition: str

    def problem(self) -> str | None:
        return None if self.condition.strip() else "the condition is empty"

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.filter(F.when(F.col(ERROR).isNull(), F.expr(self.condition)).otherwise(F.lit(True)))


@dataclass(frozen=True)
class RouteTransform:
    """`{route: "orders.{country}"}`: target of each row. A row without the field is an error."""

    kind: ClassVar[str] = "route"
    pattern: str

    def problem(self) -> str | None:
        rest = _FIELD.sub("", self.pattern)
        if "{" in rest or "}" in rest:
            return f"{self.pattern!r}: put fields in braces, for example orders.{{country}}"
        return None

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        names = _FIELD.findall(self.pattern)
        _require(self.kind, names, rows)
        texts = _FIELD.split(self.pattern)
        parts = [
            F.col(_quoted(text)).cast("string") if at % 2 else F.lit(text) for at, text in enumerate(texts)
        ]
        rows = rows.withColumn(ROUTE, F.concat(*parts))
        lacks = F.concat(F.lit("route: "), F.lit(", ".join(names)), F.lit(" is null"))
        named = F.coalesce(F.regexp_replace(ROUTE, "[^a-zA-Z0-9._-]", "?"), F.lit(""))
        odd = F.concat(F.lit("route: not a valid topic name: "), F.substring(named, 1, MAX_SHOWN))
        right = F.col(ROUTE).rlike("^[a-zA-Z0-9._-]{1,249}$") & ~F.col(ROUTE).isin(".", "..")
        return _with_error(rows, F.when(F.col(ROUTE).isNull(), lacks).when(~right, odd))


@dataclass(frozen=True)
class Cast:
    """`{cast: {amount: "decimal(10,2)"}}`: a value that cannot be cast makes its row an error."""

    kind: ClassVar[str] = "cast"
    types: dict[str, str]

    def problem(self) -> str | None:
        return None

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        _require(self.kind, self.types, rows)
        reasons = []
        for name, kind in self.types.items():
            column = F.col(_quoted(name))
            wrong = column.isNotNull() & column.try_cast(kind).isNull()
            shown = F.substring(column.cast("string"), 1, MAX_SHOWN)
            reasons.append(F.when(wrong, F.concat(F.lit(f"cast: {name} is not a valid {kind}: "), shown)))
        rows = _with_error(rows, *reasons)
        return rows.withColumns(
            {name: F.col(_quoted(name)).try_cast(kind) for name, kind in self.types.items()}
        )


@dataclass(frozen=True)
class Drop:
    """`{drop: [comment]}`"""

    kind: ClassVar[str] = "drop"
    names: list[str]

    def problem(self) -> str | None:
        return None if ERROR not in self.names else f"`{ERROR}` is a reserved name"

    def apply(self, rows: DataFrame) -> DataFrame:
        _require(self.kind, self.names, rows)
        return rows.drop(*self.names)


TRANSFORMS: dict[str, tuple[Any, Callable[[Any], Transform]]] = {
    "rename": (dict[str, str], Rename),
    "mask": (MaskSettings, MaskTransform),
    "filter": (str, FilterTransform),
    "route": (str, RouteTransform),
    "cast": (dict[str, str], Cast),
    "drop": (list[str], Drop),
}


def _with_error(rows: DataFrame, *reasons: Column) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn(ERROR, F.coalesce(F.col(ERROR), *reasons))


def _require(kind: str, names: Any, rows: DataFrame) -> None:
    for name in names:
        if name not in rows.columns:
            there = ", ".join(column for column in rows.columns if column != ERROR)
            raise PipelineError(f"`{kind}`: the rows have no field {name}; they have {there}.")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
