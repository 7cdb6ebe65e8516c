"""Schemas as Spark's DDL writes them, parsed without a session: the process that plans a Python source has none.

`user STRING, amount DECIMAL(10,2), tags ARRAY<STRING>, place STRUCT<city: STRING, at: TIMESTAMP>`
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from barnabas.pipelines.options import OptionError

PLAIN_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}

_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|(\w+)|([<>(),:]))")


def parse_ddl(text: str) -> StructType:
    """OptionError when the text is no list of fields."""
    parser = _Parser(text)
    fields = parser.fields()
    parser.expect("")
    return StructType(fields)


class _Parser:
    """Reads left to right; `peek` is the token that comes next, empty at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.peek = ""
        self._advance()

    def fields(self) -> list[StructField]:
        fields = [self._field()]
        while self.peek == ",":
            self._advance()
            fields.append(self._field())
        return fields

    def expect(self, token: str) -> None:
        if self.peek != token:
            self._fail()
        self._advance()

    def _field(self) -> StructField:
        name = self._name()
        if self.peek == ":":
            self._advance()
        kind = self._type()
        if self.peek.lower() == "not":
            # Whether records keep to it is up to those who write them: nulls must stay possible.
            self._advance()
            self._name()
        return StructField(name, kind)

    def _type(self) -> DataType:
        name = self._name().lower()
        if name == "array":
            (element,) = self._parameters(1)
            return ArrayType(element)
        if name == "map":
            key, value = self._parameters(2)
            return MapType(key, value)
        if name == "struct":
            self.expect("<")
            fields = self.fields()
            self.expect(">")
            return StructType(fields)
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name not in PLAIN_TYPES:
            raise OptionError(f"unknown type {name!r} in the schema {self._text!r}")
        return PLAIN_TYPES[name]

    def _parameters(self, count: int) -> list[DataType]:
        self.expect("<")
        found = [self._type()]
        while len(found) < count:
            self.expect(",")
            found.append(self._type())
        self.expect(">")
        return found

    def _decimal(self) -> DataType:
        if self.peek != "(":
            return DecimalType()
        self._advance()
        precision, scale = self._number(), 0
        if self.peek == ",":
            self._advance()
            scale = self._number()
        self.expect(")")
        return DecimalType(precision, scale)

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
        raise OptionError(
            f"{self._text!r} is no schema, near {self._text[self._position :] or 'its end'!r}: "
            "expected e.g. 'user STRING, amount DOUBLE'"
        )
