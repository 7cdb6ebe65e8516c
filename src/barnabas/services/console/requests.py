"""A request's parameters as the Struct that a page wants: from the path, the query string, a form or JSON."""

from __future__ import annotations

import types
import typing
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from barnabas.services.console.errors import BadInputError

T = TypeVar("T")

LARGEST_BODY = 2 * 1024 * 1024
MOST_FIELDS = 10_000
FORM = "application/x-www-form-urlencoded"
_LISTS = (list, tuple, set, frozenset)


def read_fields(text: str) -> dict[str, list[str]]:
    """Of a query string or a form."""
    try:
        return urllib.parse.parse_qs(
            text, keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=MOST_FIELDS
        )
    except (ValueError, UnicodeDecodeError):
        raise BadInputError("The parameters are not text in UTF-8, or too many") from None


def read_body(content_type: str, body: bytes) -> dict[str, Any]:
    """Forms come as lists of texts, JSON as what it says."""
    if content_type.partition(";")[0].strip().lower() == FORM:
        return read_fields(body.decode("utf-8", "surrogateescape"))
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInputError(f"The body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInputError("The body must be a JSON object")
    return found


def as_struct(kind: type[T], path: Mapping[str, str], given: Mapping[str, Any]) -> T:
    """BadInputError with the field if something is of the wrong kind. What is not asked for is left out."""
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in fields and (found := _plain(fields[name].type, value)) is not None:
            values[name] = found
    values |= {
        name: value for name, value in path.items() if name in fields
    }  # the path wins: rights are about it
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_input(str(error)) from None


def _plain(kind: Any, value: Any) -> Any:
    """Of a form: the last of several for what is no list, and nothing for an empty field that is no text."""
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
    sentence, _, place = text.partition(" - at `$.")
    field = place.rstrip("`")
    if text.startswith("Object missing required field"):
        field = text.split("`")[1]
        return BadInputError(f"{field} is missing", field)
    return BadInputError(f"{field}: {sentence}" if field else sentence, field)
