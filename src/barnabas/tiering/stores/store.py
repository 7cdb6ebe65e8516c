"""Interface of object stores: all access to a bucket goes through here.

Kinds: a folder (`folder_store`), and S3, Google and Azure (`obstore_store`). The twin in memory,
`barnabas.testing.objects.MemoryObjectStore`, can fail before the effect, lose the answer, delay, cut and corrupt.

Conditional writes are used for small objects only (manifests). Large objects are written under unique keys and are
invisible until a manifest names them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes


class StoreError(KafkaError):
    """A store operation failed. The message names the key and what to check."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class MissingObjectError(StoreError):
    """The object does not exist."""


class ObjectExistsError(StoreError):
    """`create`: the object exists already."""


class StaleVersionError(StoreError):
    """`replace`: the object was replaced or removed since it was read."""


class StoreUnavailableError(StoreError):
    """No answer, or one that says to try again later. The effect is unknown: look before repeating."""


class StoreDeniedError(StoreError):
    """The credentials do not suffice, or the bucket is full: repeating at once does not help."""


class Versioned(NamedTuple):
    """An object's bytes and its version for `replace` (an ETag or a generation).

    On S3 equal bytes have equal versions: put a number into the bytes to distinguish two writes."""

    data: bytes
    version: str


class ObjectInfo(NamedTuple):
    key: str
    size: int
    modified_ms: int


class ObjectReader(Protocol):
    """Keys are relative to the store's prefix, with `/` between their parts. Every call raises a StoreError."""

    async def get(self, key: str) -> Versioned:
        """A whole small object."""
        ...

    async def get_range(self, key: str, start: int, end: int) -> Bytes:
        """The bytes [start, end) of an object; fewer are an error. Many of them may be a view of what came: a copy of a
        chunk takes milliseconds."""
        ...


class ObjectStore(ObjectReader, Protocol):
    """All that is asked of a bucket."""

    async def create(self, key: str, data: bytes) -> str:
        """Make a small object, if there is none: exactly one of several callers succeeds. Its version."""
        ...

    async def replace(self, key: str, data: bytes, version: str) -> str:
        """Replace a small object, if it still has this version: exactly one of several callers succeeds."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Write a small object, whatever is there."""
        ...

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Write a large object piece by piece. It is there when this returns; after an error or a cancellation there
        is nothing, or all of it, and no part is left behind."""
        ...

    async def delete(self, key: str) -> None:
        """Remove an object. One that is not there is as good as removed."""
        ...

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        """The objects whose keys begin with `prefix` (which ends with `/`, or is empty), by key; only keys above
        `after`, if that is given."""
        ...

    async def close(self) -> None: ...


class BrowsableStore(ObjectStore, Protocol):
    """For those who do not know what is in a bucket."""

    async def folders(self, prefix: str) -> Sequence[str]:
        """The names between `prefix` (which ends with `/`, or is empty) and the next `/`, sorted: one request for a
        thousand of them, however many objects are below."""
        ...
