"""Search requests and results."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from barnabas.services.console.errors import BadInputError, ConsoleError

LIST_BYTES = 1024
"""Of a key or value in a list of records."""
WHOLE_BYTES = 1 << 20
"""A value of so many bytes is shown whole, a larger one is cut: the rest is for a download."""
CUT_BYTES = 64 << 10
MAX_HITS = 10_000


class Decode(StrEnum):
    """Formats of keys and values."""

    AUTO = "auto"
    JSON = "json"
    REGISTRY = "registry"
    TEXT = "text"
    HEX = "hex"


class RecordMask(msgspec.Struct, frozen=True):
    """Mask of a topic's records for users without the right to unmask.

    `fields` are paths in the value: `card.number`; `*` is any one name, `**.email` is `email` at any depth. A value
    that has no fields (text, or bytes that cannot be decoded) is hidden whole if there are any. So is anything but an
    object where a path expects one; a path that leads nowhere hides the field of its last name at any depth.
    """

    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold. Times are epoch milliseconds: from `since` up to, without, `until`."""

    topic: str
    find: str = ""
    """Bytes of the key or value contain this text; with `regex`, RE2 finds this pattern in them."""
    regex: bool = False
    ignore_case: bool = False
    key: str = ""
    """The whole key; `*` is any text."""
    header: str = ""
    """`name`, or `name=value`; `*` is any text."""
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
    """Subjects whose schemas the user may read, besides those of the topic itself; None: all."""
    continue_at: str = ""
    shown_bytes: int = LIST_BYTES
    with_hex: bool = False


class ScanBudget(msgspec.Struct, frozen=True):
    """A search that has read so much stops, says where, and can be continued."""

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
    """Names of headers are bytes here: they need not be UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class Hits(msgspec.Struct, frozen=True):
    """Records in order; a search that begins at `continue_at` gives those that come after them."""

    rows: list[Hit]
    continue_at: str


class ScanProgress(msgspec.Struct, frozen=True):
    """`of` is how many offsets there are to read, which may hold fewer records."""

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
    """`reason`: done, limit, budget. `continue_at` is empty when there is nothing left."""

    reason: str
    progress: ScanProgress
    continue_at: str
    notes: tuple[str, ...] = ()


class Skipped(msgspec.Struct, frozen=True):
    """Records that a tail did not show, because there were too many."""

    count: int


SearchEvent: TypeAlias = Hits | ScanProgress | ScanEnd


class SearchError(BadInputError):
    """The search cannot be done; the text says why. `field` names what is wrong in the request."""


class SearchFailedError(ConsoleError):
    """It was right, and something went wrong on the way."""

    status = 502
