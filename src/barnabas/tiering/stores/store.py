"""Interface of object stores: all access to a bucket goes through here.

Implementations: a folder (`folder_store`), and S3, Google and Azure (`obstore_store`). For tests,
`barnabas.testing.objects.MemoryObjectStore` can fail before the effect, lose responses, delay, truncate and corrupt.

Conditional writes are used for small objects only (manifests). Large objects are written under unique keys and are
invisible until a manifest names them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import Bytes


class StoreError(KafkaError):
    """Failed store operation. The message includes the key and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class MissingObjectError(StoreError):
    """The object does not exist."""


class ObjectExistsError(StoreError):
    """`create`: the object exists already."""


class StaleVersionError(StoreError):
    """`replace`: the object was replaced or removed since it was read."""


class StoreUnavailableError(StoreError):
    """No response, or a temporary error. The effect is unknown: check before a retry."""


class StoreDeniedError(StoreError):
    """Insufficient permissions, or a full bucket: an immediate retry does not help."""


class Versioned(NamedTuple):
    """An object's bytes and its version for `replace` (an ETag or a generation).

    On S3 equal bytes have equal versions: include a counter in the bytes to distinguish two writes."""

    data: bytes
    version: str


class ObjectInfo(NamedTuple):
    key: str
    size: int
    modified_ms: int


class ObjectReader(Protocol):
    """Read access. Keys are relative to the store's prefix; `/` separates their parts. All methods raise StoreError."""

    async def get(self, key: str) -> Versioned:
        """Read a whole small object."""
        ...

    async def get_range(self, key: str, start: int, end: int) -> Bytes:
        """Read the bytes [start, end) of an object; fewer are an error. May return a view of the receive buffer,
        because copying a chunk takes milliseconds."""
        ...


class ObjectStore(ObjectReader, Protocol):
    """Read and write access to a bucket."""

    async def create(self, key: str, data: bytes) -> str:
        """Create a small object if it does not exist; return its version. Exactly one of several callers succeeds."""
        ...

    async def replace(self, key: str, data: bytes, version: str) -> str:
        """Replace a small object if it still has this version. Exactly one of several callers succeeds."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Write a small object unconditionally."""
        ...

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Write a large object piece by piece. It is visible when this returns. After an error or a cancellation it is
        either missing or complete, and no part remains."""
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; no error if it does not exist."""
        ...

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        """List objects by key whose keys begin with `prefix` (which ends with `/` or is empty) and, if given, are above
        `after`."""
        ...

    async def close(self) -> None: ...


class BrowsableStore(ObjectStore, Protocol):
    """Store that can list folders, for readers of unknown buckets."""

    async def folders(self, prefix: str) -> Sequence[str]:
        """Return the sorted names between `prefix` (which ends with `/` or is empty) and the next `/`. One request per
        thousand names, regardless of the number of objects."""
        ...
