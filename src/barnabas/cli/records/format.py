r"""Output formats of `barnabas consume`: percent formats as in kcat, or JSON.

%t topic   %p partition   %o offset   %T timestamp in ms   %d the same as a date
%k key     %K its length (-1: null)   %v value   %V its length   %h headers   %% a percent sign
\n \t \r \0 \\ \xHH
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import ConsumedRecord

Piece = Callable[["ConsumedRecord"], bytes]

DEFAULT_FORMAT = r"%v\n"
HUMAN_FORMAT = r"%d  %t-%p @%o  %k  %v\n"

_TOKEN = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def compile_format(text: str) -> Callable[[ConsumedRecord], bytes]:
    """A function that writes one record; ValueError for an unknown directive."""
    pieces = [_piece(match) for match in _TOKEN.finditer(text)]
    return lambda record: b"".join([piece(record) for piece in pieces])


def to_json(record: ConsumedRecord) -> bytes:
    """One line of JSON. Bytes that are not valid UTF-8 are in `key_base64` or `value_base64` instead."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_json_bytes("key", record.key),
        **_json_bytes("value", record.value),
        "headers": [{"name": name, **_json_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _piece(match: re.Match[str]) -> Piece:
    directive, escape, plain, alone = match.groups()
    if directive is not None:
        return _directive(directive)
    if escape is not None:
        return _constant(_unescape(escape))
    return _constant((plain or alone).encode())


def _constant(text: bytes) -> Piece:
    return lambda record: text


def _unescape(escape: str) -> bytes:
    if escape.startswith("x"):
        return bytes.fromhex(escape[1:]) if len(escape) == 3 else b"\\x"
    return _ESCAPES.get(escape, b"\\" + escape.encode())


def _directive(letter: str) -> Piece:
    if letter not in _DIRECTIVES:
        known = " ".join(f"%{known}" for known in _DIRECTIVES)
        raise ValueError(f"%{letter} is not a valid directive; known are {known}")
    return _DIRECTIVES[letter]


def _length(value: Sequence[int] | None) -> bytes:
    return b"-1" if value is None else b"%d" % len(value)


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (b"" if value is None else value)
        for name, value in record.headers
    )


def _date(record: ConsumedRecord) -> bytes:
    """Local time to the millisecond; timestamps beyond the calendar stay numbers."""
    try:
        time_text = datetime.datetime.fromtimestamp(record.timestamp / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return b"%d" % record.timestamp
    return time_text.isoformat(timespec="milliseconds").encode()


_DIRECTIVES: dict[str, Piece] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "d": _date,
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",  # as in kcat
    "V": lambda record: _length(record.value),
    "S": lambda record: _length(record.value),
    "h": _headers,
    "%": _constant(b"%"),
}
