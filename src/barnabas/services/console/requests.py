"""Request parameters as a page's Struct: from the path, the query string, a form or JSON.

Parsing is bounded in time and memory: escapes are decoded in chunks, and only the JSON fields that the page declares
are decoded, directly into their types.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from barnabas.services.console.errors import BadInputError

T = TypeVar("T")

MAX_BODY = 2 * 1024 * 1024
MAX_BODY_BEFORE_LOGIN = 16 * 1024
"""Enough for a login form: user name, password and a path."""
MAX_FIELDS = 10_000
FORM = "application/x-www-form-urlencoded"
_LISTS = (list, tuple, set, frozenset)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_PIECE = 64 * 1024
"""Bytes to unescape at a time: urllib needs 360 MB for 2 MB of `%`."""


def read_fields(data: bytes) -> dict[str, list[str]]:
    """Parse a query string or a form."""
    if data.count(b"&") >= MAX_FIELDS:
        raise BadInputError(f"There are more than {MAX_FIELDS:,} parameters")
    found: dict[str, list[str]] = {}
    for pair in filter(None, data.split(b"&")):
        name, _, value = pair.partition(b"=")
        found.setdefault(_unescaped(name), []).append(_unescaped(value))
    return found


def _unescaped(data: bytes) -> str:
    spaced = data.replace(b"+", b" ")
    plain = spaced if b"%" not in spaced else b"".join(map(_unescaped_piece, _pieces(spaced)))
    try:
        return plain.decode()
    except UnicodeDecodeError:
        raise BadInputError("The parameters are not text in UTF-8") from None


def _unescaped_piece(piece: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), piece)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Split into chunks, never within an escape."""
    start = 0
    while start < len(data):
        end = start + _PIECE
        cut = data.rfind(b"%", end - 2, end)
        end = end if cut < 0 or end >= len(data) else cut
        yield data[start:end]
        start = end


def read_struct(kind: type[T], path: Mapping[str, str], content_type: str, body: bytes) -> T:
    """Parse a form or JSON body."""
    if content_type.partition(";")[0].strip().lower() == FORM:
        return as_struct(kind, path, read_fields(body))
    try:
        raw: type[msgspec.Struct] = _raw_kind(kind)  # type: ignore[arg-type]  # a class is hashable
        found = msgspec.json.decode(body or b"{}", type=raw)
    except msgspec.ValidationError:
        raise BadInputError("The body must be a JSON object") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInputError(f"The body is not valid JSON: {error}") from None
    fields = {each.name: each.encode_name for each in msgspec.structs.fields(found)}
    values = {encoded: getattr(found, name) for name, encoded in fields.items()}
    return as_struct(kind, path, {name: value for name, value in values.items() if bytes(value) != b"null"})


@functools.cache
def _raw_kind(kind: type[Any]) -> type[msgspec.Struct]:
    """Struct type with the same fields, all left undecoded."""
    fields = msgspec.structs.fields(kind)
    names = {each.name: each.encode_name for each in fields}
    raw = [(each.name, msgspec.Raw, msgspec.Raw(b"null")) for each in fields]
    return msgspec.defstruct(f"Raw{kind.__name__}", raw, rename=names)


def as_struct(kind: type[T], path: Mapping[str, str], specified: Mapping[str, Any]) -> T:
    """Convert parameters to the Struct, ignoring unknown ones. BadInputError names the invalid field."""
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in specified.items():
        if name in fields and (found := _plain(fields[name].type, value)) is not None:
            values[name] = found
    values |= {
        name: value for name, value in path.items() if name in fields
    }  # the path wins: rights are about it
    try:
        if any(isinstance(value, msgspec.Raw) for value in values.values()):
            return msgspec.json.decode(msgspec.json.encode(values), type=kind, strict=False)
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_input(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInputError(f"The body is not valid JSON: {error}") from None


def _plain(kind: Any, value: Any) -> Any:
    """Value of a form field: the last one unless the type is a list; None if empty, unless the type is a string."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return value
    if _takes(kind, _LISTS):
        return [each for each in value if each]
    last = value[-1] if value else None
    return last if last or _takes(kind, (str,)) else None


def _takes(kind: Any, wanted: tuple[type, ...]) -> bool:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_takes(each, wanted) for each in typing.get_args(kind))
    if origin is typing.Annotated:
        return _takes(typing.get_args(kind)[0], wanted)
    return (origin or kind) in wanted


def _bad_input(text: str) -> BadInputError:
    sentence, _, path = text.partition(" - at `$.")
    field = path.rstrip("`")
    if text.startswith("Object missing required field"):
        field = text.split("`")[1]
        return BadInputError(f"{field} is missing", field)
    return BadInputError(f"{field}: {sentence}" if field else sentence, field)
