"""Schemas in Spark's DDL, parsed without Spark and without Arrow.

`user STRING, amount DECIMAL(10,2), tags ARRAY<STRING>, place STRUCT<city: STRING, at: TIMESTAMP>`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.tables.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

SAME = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
PLAIN = (
    "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp",
    "timestamp_ntz",
)  # fmt: skip
DEFAULT_DECIMAL = (10, 0)


class Type(NamedTuple):
    """`parameters`: element type of an array, two types of a map, fields of a struct, numbers of a decimal."""

    name: str
    parameters: tuple[Any, ...] = ()


class DdlField(NamedTuple):
    name: str
    type: Type


_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|(\w+)|([<>(),:]))")


def parse_fields(text: str) -> list[DdlField]:
    """Raises SchemaError if the text is not a list of fields."""
    parser = _Parser(text)
    fields = parser.fields()
    parser.expect("")
    return fields


def arrow_schema(text: str) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(field.name, arrow_type(field.type)) for field in parse_fields(text)])


def arrow_type(kind: Type) -> pa.DataType:
    import pyarrow as pa

    name, parameters = kind
    if name == "array":
        return pa.list_(pa.field("element", arrow_type(parameters[0])))
    if name == "map":
        return pa.map_(arrow_type(parameters[0]), arrow_type(parameters[1]))
    if name == "struct":
        return pa.struct([(field.name, arrow_type(field.type)) for field in parameters])
    if name == "decimal":
        return pa.decimal128(*parameters)
    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[name]


def ddl_of(kind: pa.DataType) -> str:
    """Format a type as DDL, for messages."""
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind):
        return f"ARRAY<{ddl_of(kind.value_type)}>"
    if types.is_struct(kind):
        inner = (kind.field(index) for index in range(kind.num_fields))
        return f"STRUCT<{', '.join(f'{field.name}: {ddl_of(field.type)}' for field in inner)}>"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    known = next((name for name in PLAIN if arrow_type(Type(name)) == kind), str(kind))
    return known.upper()


class _Parser:
    """Reads left to right; `peek` is the next token, empty at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.peek = ""
        self._advance()

    def fields(self) -> list[DdlField]:
        fields = [self._field()]
        while self.peek == ",":
            self._advance()
            fields.append(self._field())
        return fields

    def expect(self, token: str) -> None:
        if self.peek != token:
            self._fail()
        self._advance()

    def _field(self) -> DdlField:
        name = self._name()
        if self.peek == ":":
            self._advance()
        kind = self._type()
        if self.peek.lower() == "not":
            # Producers may still violate NOT NULL, so nulls must stay possible.
            self._advance()
            self._name()
        return DdlField(name, kind)

    def _type(self) -> Type:
        written = self._name().lower()
        name = SAME.get(written, written)
        if name in ("array", "map"):
            return Type(name, tuple(self._parameters(1 if name == "array" else 2)))
        if name == "struct":
            self.expect("<")
            fields = self.fields()
            self.expect(">")
            return Type(name, tuple(fields))
        if name == "decimal":
            return self._decimal()
        if name not in PLAIN:
            raise SchemaError(f"unknown type {written!r} in the schema {self._text!r}")
        return Type(name)

    def _parameters(self, count: int) -> list[Type]:
        self.expect("<")
        found = [self._type()]
        while len(found) < count:
            self.expect(",")
            found.append(self._type())
        self.expect(">")
        return found

    def _decimal(self) -> Type:
        if self.peek != "(":
            return Type("decimal", DEFAULT_DECIMAL)
        self._advance()
        precision, scale = self._number(), 0
        if self.peek == ",":
            self._advance()
            scale = self._number()
        self.expect(")")
        return Type("decimal", (precision, scale))

    def _number(self) -> int:
        if not self.peek.isdigit():
            self._fail()
        return int(self._name())

    def _name(self) -> str:
        name = self.peek
        if not name or not (name[0] == "`" or name[0].isalnum() or name[0] == "_"):
            self._fail()
        self._advance()
        return name.strip("`")

    def _advance(self) -> None:
        rest = self._text[self._position :]
        found = _TOKEN.match(rest)
        if found is None:
            if rest.strip():
                self._fail()
            self.peek = ""
            return
        self._position += found.end()
        self.peek = next(group for group in found.groups() if group is not None)

    def _fail(self) -> None:
        raise SchemaError(
            f"not a valid schema: {self._text!r}, near {self._text[self._position :] or 'its end'!r} "
            "(example: 'user STRING, amount DOUBLE')"
        )
