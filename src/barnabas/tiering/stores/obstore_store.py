"""Buckets of S3, Google and Azure through obstore. No other module imports obstore.

Three clients per bucket: reads and unconditional writes are retried; conditional writes are not, because a retry could
see its own effect and report a conflict; uploads have longer timeouts.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from barnabas.common.files import Bytes
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectInfo,
    StaleVersionError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
    Versioned,
)
from barnabas.tiering.stores.store_failures import answer_in, failure, is_missing_bucket

T = TypeVar("T")

CONNECT_SECONDS = 2
REQUEST_SECONDS = 10  # a chunk of 4 MiB at 3.4 Mbit/s
REPEATED = {
    "max_retries": 2,  # three attempts
    "retry_timeout": timedelta(seconds=30),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
ONCE = {"max_retries": 0, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)}
WITHOUT_PROGRESS_SECONDS = 60.0
LAST_SECONDS = 0.25
PART_BYTES = 16 << 20  # S3 allows 10,000 parts: 156 GiB
PARTS_AT_ONCE = 2
LARGE = (
    1 << 20
)  # larger buffers are not copied: allocating 4 MiB takes 2 to 7 ms in a virtual machine and blocks the loop
MAX_REQUESTS = 128
"""Maximum concurrent requests. New leaders of thousands of partitions claim their manifests simultaneously."""

RAISED = (exceptions.BaseError, OSError, NotImplementedError, ValueError)
CONDITION_FAILED = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
KINDS: dict[str, Callable[..., Any]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
# An http:// there is meant. Where these are not given, only https is spoken.
ENDPOINTS = (
    "endpoint",
    "endpoint_url",
    "aws_endpoint",
    "aws_endpoint_url",
    "azure_storage_endpoint",
    "base_url",
)
UNSIGNED = ("unsigned_payload", "aws_unsigned_payload")
IN_THE_URL = frozenset({"bucket", "bucket_name", "aws_bucket", "aws_bucket_name", "google_bucket", "google_bucket_name",
                        "container_name", "azure_container_name"})  # fmt: skip
CLIENT_OPTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "read_timeout", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes", "root_certificate",
    "randomize_addresses", "user_agent",
})  # fmt: skip


class UnknownOptionError(ValueError):
    """Unknown option, or invalid value, for this type of store."""


class BucketUrl(NamedTuple):
    scheme: str
    name: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}"


class ObstoreStore:
    def __init__(
        self,
        bucket: BucketUrl,
        options: Mapping[str, str],
        without_progress_seconds: float = WITHOUT_PROGRESS_SECONDS,
    ) -> None:
        self._bucket = bucket
        self._patience = without_progress_seconds
        self._slots = asyncio.Semaphore(MAX_REQUESTS)
        self._store = _client(bucket, options, REQUEST_SECONDS, REPEATED)
        self._conditional = _client(bucket, options, REQUEST_SECONDS, ONCE)
        self._uploading = _client(bucket, _for_uploads(bucket, options), without_progress_seconds, REPEATED)

    def __repr__(self) -> str:
        return f"ObstoreStore({self._bucket}/{self._bucket.prefix})"

    # -- reading --------------------------------------------------------------------------------------

    async def get(self, key: str) -> Versioned:
        return await self._do(key, lambda: self._get(key), missing=self._missing(key))

    async def _get(self, key: str) -> Versioned:
        result = await obstore.get_async(self._store, key)
        data = await result.bytes_async()
        return Versioned(data.to_bytes(), self._version(key, result.meta))

    async def get_range(self, key: str, start: int, end: int) -> Bytes:
        if start == end:
            return b""
        found = await self._do(
            key,
            lambda: obstore.get_range_async(self._store, key, start=start, end=end),
            missing=self._missing(key),
        )
        if len(found) < end - start:
            raise StoreError(
                f"{key} in {self._bucket} ends at {start + len(found)}, before {end}: it was truncated."
            )
        return found.to_bytes() if end - start < LARGE else memoryview(found)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        found = obstore.list(self._store, prefix.rstrip("/") or None, offset=after or None, chunk_size=1000)
        while some := await self._do(prefix, lambda: _next(found)):
            for item in some:
                if item["path"] <= after:
                    continue  # Azurite ignores the start key
                yield ObjectInfo(item["path"], item["size"], int(item["last_modified"].timestamp() * 1000))

    async def folders(self, prefix: str) -> Sequence[str]:
        below = prefix.rstrip("/") or None
        found = await self._do(prefix, lambda: obstore.list_with_delimiter_async(self._store, below))
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    # -- writing --------------------------------------------------------------------------------------

    async def create(self, key: str, data: bytes) -> str:
        lost = ObjectExistsError(f"{key} in {self._bucket} already exists.")
        return await self._write_if(key, data, "create", lost, None)

    async def replace(self, key: str, data: bytes, version: str) -> str:
        expected = {"version" if self._bucket.scheme == "gs" else "e_tag": version}
        lost = StaleVersionError(f"{key} in {self._bucket} has been replaced or removed since it was read.")
        return await self._write_if(key, data, expected, lost, lost)

    async def _write_if(
        self, key: str, data: bytes, mode: Any, lost: StoreError, missing: StoreError | None
    ) -> str:
        written = await self._do(
            key, lambda: obstore.put_async(self._conditional, key, data, mode=mode), lost, missing
        )
        return self._version(key, written)

    async def put(self, key: str, data: bytes) -> None:
        await self._do(key, lambda: obstore.put_async(self._store, key, data, use_multipart=False))

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Upload in parts. Opens the writer late: an unused one can abort the process at exit (seen with 0.12.1)."""
        source = aiter(pieces)
        first = await anext(source, b"")
        writer = obstore.open_writer_async(
            self._uploading, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        await self._do(key, writer.__aenter__)
        try:
            await self._progress(key, lambda: writer.write(first))
            async for piece in source:
                await self._progress(key, partial(writer.write, piece))
            await self._progress(key, writer.close)
        except BaseException as error:
            with suppress(
                Exception
            ):  # the original error matters more; parts are left to the bucket's lifecycle rule
                await writer.__aexit__(type(error), error, None)
            raise

    async def _progress(self, key: str, step: Callable[[], Awaitable[object]]) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._do(key, step)
        except TimeoutError:
            lost = f"The upload of {key} to {self._bucket} made no progress for {self._patience:.0f} s: cancelled."
            raise StoreUnavailableError(f"{lost} Check the network and the state of the store.") from None

    async def delete(self, key: str) -> None:
        with suppress(MissingObjectError):
            await self._do(key, lambda: obstore.delete_async(self._store, key), missing=self._missing(key))

    async def close(self) -> None:
        """No action: obstore closes its connections with the last reference."""
        del self._store, self._conditional, self._uploading

    # -- errors ---------------------------------------------------------------------------------------

    async def _do(
        self,
        key: str,
        work: Callable[[], Awaitable[T]],
        lost: StoreError | None = None,
        missing: StoreError | None = None,
    ) -> T:
        """`lost`: error if the condition of a write fails; `missing`: error if the object does not exist.
        obstore starts a request on the call, not on the await: hence a function."""
        try:
            async with self._slots:
                return await work()
        except RAISED as error:
            problem = self._described(error, key, lost, missing)
        raise problem  # outside `except`: obstore's message may contain a signed URL and must not be chained

    def _described(
        self, error: Exception, key: str, lost: StoreError | None, missing: StoreError | None
    ) -> StoreError:
        answer = answer_in(str(error))
        if is_missing_bucket(answer):
            return failure(answer, key, str(self._bucket))
        if missing is not None and isinstance(error, FileNotFoundError):
            return missing
        if lost is not None and isinstance(error, CONDITION_FAILED):
            return lost
        if isinstance(error, (exceptions.NotSupportedError, NotImplementedError)):
            refused = f"{self._bucket} does not support the operation on {key}"
            return StoreDeniedError(f"{refused}: rsm.config.* must not disable conditional writes.")
        return failure(answer, key, str(self._bucket))

    def _missing(self, key: str) -> MissingObjectError:
        return MissingObjectError(f"{key} is not in {self._bucket}.")

    def _version(self, key: str, meta: Mapping[str, Any]) -> str:
        version: str | None = meta["version" if self._bucket.scheme == "gs" else "e_tag"]
        if version is None:
            raise StoreError(f"{self._bucket} returns no version of {key}: it cannot be used for tiering.")
        return version


async def _next(found: AsyncIterator[Any]) -> Any:
    """Return the next objects of a list; None at its end."""
    return await anext(found, None)


@cache
def _end_quietly() -> None:
    """Wait at exit: threads of obstore release Python objects shortly after a response. If the interpreter exits
    before, signal 6 or 7 kills the process: 12 of 25 readers of many ranges, 0 with this pause."""
    atexit.register(time.sleep, LAST_SECONDS)


def _for_uploads(bucket: BucketUrl, options: Mapping[str, str]) -> Mapping[str, str]:
    """S3 requires a SHA-256 of each part (half the CPU of an upload) unless it is declared unsigned: TLS
    protects integrity. Without TLS it is computed. An option overrides this."""
    may_be_plain = _is_plain(options) or "allow_http" in options
    if bucket.scheme != "s3" or may_be_plain or any(name in options for name in UNSIGNED):
        return options
    return {**options, UNSIGNED[0]: "true"}


def _is_plain(options: Mapping[str, str]) -> bool:
    return any(options.get(name, "").startswith("http://") for name in ENDPOINTS)


def _client(bucket: BucketUrl, options: Mapping[str, str], seconds: float, repeats: Mapping[str, Any]) -> Any:
    if IN_THE_URL & options.keys():
        raise UnknownOptionError("Set the bucket in barnabas.remote.storage.url only.")
    _end_quietly()
    client = {"connect_timeout": timedelta(seconds=CONNECT_SECONDS), "timeout": timedelta(seconds=seconds)}
    client_options = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
    if _is_plain(options):
        client_options.setdefault("allow_http", "true")
    config = {name: value for name, value in options.items() if name not in CLIENT_OPTIONS}
    try:
        return KINDS[bucket.scheme](
            bucket.name, prefix=bucket.prefix or None, config=config, client_options=client | client_options,
            retry_config=repeats,
        )  # fmt: skip
    except (exceptions.BaseError, ValueError, TypeError) as error:
        problem = str(error).splitlines()[0]
    for value in options.values():  # a value that cannot be read is quoted
        problem = problem.replace(value, "...") if len(value) > 3 else problem
    raise UnknownOptionError(problem)
