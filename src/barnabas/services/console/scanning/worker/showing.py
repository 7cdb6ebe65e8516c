"""Formats keys, values and headers: JSON, decoded by schema, text, or else hexadecimal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from barnabas.client import ClientError
from barnabas.client.schemas import RegistryAccount, SchemaDecoder, plain
from barnabas.client.schemas.client import PREFIX, NotFramedError, RegistryError, topic_of
from barnabas.services.console.scanning.model import (
    CUT_BYTES,
    HIDDEN,
    HIDDEN_BYTES,
    WHOLE_BYTES,
    Decode,
    Hit,
    Search,
    ShownValue,
)

NULL = ShownValue("null")
REGISTRY_TIMEOUT = 3.0
REGISTRY_PAUSE = 10.0  # seconds without requests to a registry that could not be reached
_json = msgspec.json.Decoder()


OWNERS_SECONDS = 30.0
MAX_OWNERS = 10_000


class RegistryReader:
    """Schema registry client of search processes; an unreachable registry is not retried for every record."""

    def __init__(self, registry: RegistryAccount) -> None:
        self._client = registry.client(REGISTRY_TIMEOUT)
        self._decoder = SchemaDecoder(self._client)
        self._owners: dict[int, tuple[float, frozenset[str]]] = {}
        self._away_until = 0.0
        self._problem = ""

    def decode(self, data: bytes) -> Any:
        """Decode bytes that begin with a schema id; raises ValueError with the reason on failure."""
        if time.monotonic() < self._away_until:
            raise ValueError(self._problem)
        try:
            return self._decoder(data)
        except RegistryError as error:
            if not error.status:
                self._away_until, self._problem = time.monotonic() + REGISTRY_PAUSE, str(error)
            raise ValueError(str(error)) from error
        except ClientError as error:
            raise ValueError(str(error)) from error

    def schema(self, schema_id: int) -> tuple[str, str]:
        """(format, text) of a schema used for decoding."""
        schema = self._client.schema(schema_id)
        return schema.type.lower(), schema.text

    def owners(self, schema_id: int) -> frozenset[str]:
        """Return the subjects that contain this schema; raises ValueError if the request fails."""
        until, found = self._owners.get(schema_id, (0.0, frozenset[str]()))
        if time.monotonic() < until:
            return found
        try:
            found = self._client.subjects_of(schema_id)
        except ClientError as error:
            raise ValueError(str(error)) from error
        if len(self._owners) >= MAX_OWNERS:
            self._owners.clear()
        self._owners[schema_id] = time.monotonic() + OWNERS_SECONDS, found
        return found

    def close(self) -> None:
        self._client.close()


class Schemas:
    """Schemas that one user may read. The registry is queried with the console's login, which may read more, and a
    record of the user's own topic can name any schema id."""

    def __init__(self, reader: RegistryReader, search: Search) -> None:
        self._reader, self._topic, self._subjects = reader, search.topic, search.subjects

    def decode(self, data: bytes) -> Any:
        if self._subjects is not None and len(data) >= PREFIX:
            self._check(int.from_bytes(data[1:PREFIX], "big"), self._subjects)
        return self._reader.decode(data)

    def schema(self, schema_id: int) -> tuple[str, str]:
        """(format, text) of a schema used for decoding."""
        return self._reader.schema(schema_id)

    def _check(self, schema_id: int, allowed: frozenset[str]) -> None:
        owners = self._reader.owners(schema_id)
        if not any(subject in allowed or topic_of(subject) == self._topic for subject in owners):
            raise ValueError(f"you may not read schema {schema_id}: it is of other topics")


class Viewer:
    """Formats the records of one search."""

    def __init__(self, search: Search, schemas: Schemas | None, *, value_is_masked: bool = False) -> None:
        self._how, self._schemas = search.decode, schemas
        self._most, self._with_hex = search.shown_bytes, search.with_hex and not search.masks
        self._with_schema = search.with_hex
        self._value_is_masked = value_is_masked

    def hits(self, rows: Iterable[dict[str, Any]], partition: int) -> list[Hit]:
        return [
            Hit(
                partition,
                row["offset"],
                row["timestamp"],
                self.show(row["key"]),
                self._value(row["value"]),
                tuple((pair["key"], self.header(pair["value"])) for pair in row["headers"] or ()),
            )
            for row in rows
        ]

    def header(self, data: bytes | None) -> ShownValue:
        return NULL if data is None else self._cut(*_text_or_hex(data), len(data))

    def show(self, data: bytes | None) -> ShownValue:
        if data is None:
            return NULL
        if data == HIDDEN_BYTES:
            return ShownValue("masked", HIDDEN, len(data))
        shown = self._shown(data)
        return msgspec.structs.replace(shown, hex=data[:CUT_BYTES].hex()) if self._with_hex else shown

    def _value(self, data: bytes | None) -> ShownValue:
        """Format a value; a masked one is already decoded, as JSON."""
        if self._value_is_masked and data is not None and data != HIDDEN_BYTES:
            return self._cut("json", data.decode(), len(data))
        return self.show(data)

    def _shown(self, data: bytes) -> ShownValue:
        size = len(data)
        if self._how is Decode.HEX:
            return self._cut("hex", data[: self._most].hex(" "), size)
        if self._how is Decode.TEXT:
            return self._cut("text", data.decode("utf-8", "replace"), size)
        framed = size >= PREFIX and data[0] == 0
        note = ""
        if self._how is Decode.REGISTRY or (
            framed and self._how is Decode.AUTO and self._schemas is not None
        ):
            try:
                return self._by_schema(data)
            except ValueError as error:
                note = str(error)
        form, text = _text_or_hex(data)
        if form == "text" and _is_json(data):
            form = "json"
        elif self._how is Decode.JSON:
            note = "not valid JSON"
        return self._cut(form, text, size, note=note)

    def _by_schema(self, data: bytes) -> ShownValue:
        if self._schemas is None:
            raise NotFramedError("no schema registry is configured for this cluster")
        value = self._schemas.decode(data)
        schema_id = int.from_bytes(data[1:PREFIX], "big")
        text = json.dumps(value, ensure_ascii=False, default=plain)
        form, schema_text = self._schemas.schema(schema_id)
        shown = self._cut(form, text, len(data), schema=schema_id)
        return msgspec.structs.replace(shown, schema_text=schema_text) if self._with_schema else shown

    def _cut(self, form: str, text: str, size: int, *, schema: int = 0, note: str = "") -> ShownValue:
        limit = self._most
        if limit >= WHOLE_BYTES and max(size, len(text)) > limit:
            limit = CUT_BYTES
        cut = len(text) > limit or (form == "hex" and 3 * size > len(text) + 1)
        return ShownValue(form, text[:limit], size, cut, schema, note)


def _text_or_hex(data: bytes) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", data[:CUT_BYTES].hex(" ")
    printable = text.isprintable() or all(letter.isprintable() or letter in "\n\r\t" for letter in text)
    return ("text", text) if printable else ("hex", data[:CUT_BYTES].hex(" "))


def _is_json(data: bytes) -> bool:
    try:
        _json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True
