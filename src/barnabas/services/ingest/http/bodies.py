"""Parse a request body into record values and keys. A body is accepted as a whole or rejected.

Values keep the text of the request. JSON is validated without building objects, which could be much larger than the
body.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from barnabas.records.compression import BeyondLimitError, Codec, CompressionError, unpack
from barnabas.services.ingest.http.errors import PublishError, bad_json, too_large

JSON = "application/json"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_CONTENT = re.compile(rb"\S")
_GZIP = ("gzip", "x-gzip")

Raw = msgspec.Raw
_MISSING = Raw(b"")
_one = msgspec.json.Decoder(Raw)
_many = msgspec.json.Decoder(list[Raw])


@functools.cache
def _at_most(count: int) -> msgspec.json.Decoder[Any]:
    """Decoder for up to `count` array elements; fails at the first excess one: 3.9 KB of gzip can hold 4 million."""
    fields = [(f"e{number}", Raw, _MISSING) for number in range(count)]
    return msgspec.json.Decoder(
        msgspec.defstruct("Array", fields, array_like=True, forbid_unknown_fields=True)
    )


def media_of(content_type: str) -> str:
    """Return JSON or LINES[0]; 415 for other types, which include those of HTML forms."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == JSON or kind.endswith("+json"):
        return JSON
    if kind in LINES:
        return LINES[0]
    text = f"unsupported Content-Type: {kind or 'missing'}; use {JSON} or {LINES[0]}"
    raise PublishError(415, text)


def plain_body(body: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a body to at most `limit` bytes."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return body
    if word not in _GZIP:
        raise PublishError(415, f"unsupported Content-Encoding: {word}; use gzip or none")
    try:
        return bytes(unpack(Codec.GZIP, body, limit))
    except BeyondLimitError:
        raise too_large("the decompressed body is too large", limit, "max_body_bytes") from None
    except CompressionError as error:
        raise PublishError(400, f"the body is not valid gzip: {error}; nothing of it was written") from None


def read_values(body: bytes, media: str, limit: int) -> list[bytes]:
    """Return one value, the elements of an array, or the lines; 400 includes the number of an invalid line."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise bad_json(_line_of(body, error.start), "not UTF-8") from None
    values = _lines(body, limit) if media == LINES[0] else _document(body, limit)
    if len(values) > limit:
        raise too_large(f"the body has {len(values)} records", limit, "max_records")
    if not values:
        raise PublishError(400, "the body has no records")
    return values


def prepare(limit: int) -> None:
    """Build the decoder at startup: it is too slow for the event loop."""
    _at_most(limit)


def _document(body: bytes, limit: int) -> list[bytes]:
    if not body.strip():
        return []
    try:
        if body.lstrip().startswith(b"["):
            if body.count(b",") < limit:  # an upper bound on the number of elements
                return [bytes(value) for value in _many.decode(body)]
            return [
                bytes(value)
                for value in msgspec.structs.astuple(_at_most(limit).decode(body))
                if bytes(value)
            ]
        return [bytes(_one.decode(body)).strip()]
    except msgspec.ValidationError:
        raise too_large("the body has too many records", limit, "max_records") from None
    except msgspec.DecodeError as error:
        raise bad_json(_line_of(body, _offset_of(error, len(body))), _reason(error)) from None
    except RecursionError:
        raise bad_json(1, "it is nested too deeply") from None


def _lines(body: bytes, limit: int) -> list[bytes]:
    values: list[bytes] = []
    for number, line in _numbered(body):
        try:
            _one.decode(line)
        except msgspec.DecodeError as error:
            raise bad_json(number, _reason(error)) from None
        except RecursionError:
            raise bad_json(number, "it is nested too deeply") from None
        values.append(line)
        if len(values) > limit:
            break
    return values


def _numbered(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines with their numbers."""
    start, number = 0, 1
    while content := _CONTENT.search(body, start):  # millions of empty lines are skipped at once
        number += body.count(b"\n", start, content.start())
        end = body.find(b"\n", content.start())
        end = len(body) if end < 0 else end
        yield number, body[content.start() : end].strip()
        start = end


def _line_of(body: bytes, offset: int) -> int:
    return body.count(b"\n", 0, offset) + 1


def _offset_of(error: Exception, end: int) -> int:
    """Parse the `(byte 12)` at the end of a msgspec error; without it the body is truncated."""
    digits = str(error).rpartition("(byte ")[2].removesuffix(")")
    return int(digits) if digits.isdecimal() else end


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return "unexpected end" if "truncated" in text else text


def key_reader(field: str | None) -> Callable[[bytes], bytes | None]:
    """Return a function that extracts the key: a string's text, JSON of other types, None if missing or null."""
    if field is None:
        return lambda value: None
    kind: Any = Raw
    for name in reversed(field.split(".")):
        default = Raw(b"") if kind is Raw else None
        inner = kind if kind is Raw else kind | None
        kind = msgspec.defstruct("Level", [("field", inner, default)], rename={"field": name})
    decode = msgspec.json.Decoder(kind).decode

    def key_of(value: bytes) -> bytes | None:
        try:
            found = decode(value)
            while found is not None and not isinstance(found, Raw):
                found = found.field
            return None if found is None else _key(bytes(found))
        except msgspec.DecodeError:  # the value, or one on the path to the field, is not an object
            return None

    return key_of


def _key(raw: bytes) -> bytes | None:
    if not raw or raw == b"null":
        return None
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw
