"""Search requests and results."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from barnabas.services.console.errors import BadInputError, ConsoleError

LIST_BYTES = 1024
"""Bytes shown of a key or value in a list of records."""
WHOLE_BYTES = 1 << 20
"""Values up to this size are shown in full; larger ones are truncated and can be downloaded."""
CUT_BYTES = 64 << 10
MAX_HITS = 10_000
HIDDEN = "*****"
"""Shown instead of a masked part."""
HIDDEN_BYTES = HIDDEN.encode()


class Decode(StrEnum):
    """Formats of keys and values."""

    AUTO = "auto"
    JSON = "json"
    REGISTRY = "registry"
    TEXT = "text"
    HEX = "hex"


class RecordMask(msgspec.Struct, frozen=True):
    """Mask of a topic's records for users without the right to unmask.

    `fields` are paths in the value: `card.number`; `*` matches one name, `**.email` matches `email` at any depth. With
    any path, values without fields (text, undecodable bytes) are hidden entirely, and so are non-objects where a path
    expects an object. A path without a match hides fields with its last name at any depth.
    """

    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search; all must match. Times are epoch milliseconds, `since` inclusive, `until` exclusive."""

    topic: str
    find: str = ""
    """Text to find in the bytes of the key or value; an RE2 pattern with `regex`."""
    regex: bool = False
    ignore_case: bool = False
    key: str = ""
    """Complete key; `*` matches any text."""
    header: str = ""
    """`name` or `name=value`; `*` matches any text."""
    where: str = ""
    since: int | None = None
    until: int | None = None
    first_offset: int | None = None
    until_offset: int | None = None
    partitions: tuple[int, ...] = ()
    newest_first: bool = True
    committed: bool = True
    limit: int = 100
    decode: Decode = Decode.AUTO
    masks: tuple[RecordMask, ...] = ()
    subjects: frozenset[str] | None = None
    """Subjects whose schemas the user may read in addition to those of the topic; None: all."""
    continue_at: str = ""
    shown_bytes: int = LIST_BYTES
    with_hex: bool = False
    user: str = ""
    """Users share the search processes fairly."""


class ScanBudget(msgspec.Struct, frozen=True):
    """Limits of a search. A search that reaches one stops and can be continued."""

    records: int = 10_000_000
    bytes: int = 2 << 30
    seconds: float = 60.0


class ShownValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key, value or header for display. `format`: null, json, text, hex, masked, avro, protobuf."""

    format: str
    text: str = ""
    size: int = 0
    cut: bool = False
    schema: int = 0
    note: str = ""
    hex: str = ""
    schema_text: str = ""


class Hit(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    timestamp: int
    key: ShownValue
    value: ShownValue
    headers: tuple[tuple[str, ShownValue], ...] = ()


class RawRecord(msgspec.Struct, frozen=True):
    """Record as stored. Header names are bytes, since they need not be UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class Hits(msgspec.Struct, frozen=True):
    """Records in order; a search from `continue_at` returns the records after them."""

    rows: list[Hit]
    continue_at: str


class ScanProgress(msgspec.Struct, frozen=True):
    """`of`: number of offsets to read; they may hold fewer records."""

    records: int
    bytes: int
    offsets: int
    of: int
    hits: int
    seconds: float
    continue_at: str
    failures: int = 0
    failure: str = ""


class ScanEnd(msgspec.Struct, frozen=True):
    """`reason`: done, limit, budget. `continue_at` is empty if nothing is left to read."""

    reason: str
    progress: ScanProgress
    continue_at: str
    notes: tuple[str, ...] = ()


class Skipped(msgspec.Struct, frozen=True):
    """Number of records that a tail left out to limit its output."""

    count: int


SearchEvent: TypeAlias = Hits | ScanProgress | ScanEnd


RECORD_NOT_FOUND = "no record at this offset: it was deleted, compacted or aborted, or was never written"


class SearchError(BadInputError):
    """Search that cannot be executed; the text gives the reason, `field` the invalid field of the request."""


class SearchFailedError(ConsoleError):
    """Valid search that failed while running."""

    status = 502
