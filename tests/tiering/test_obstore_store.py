"""Buckets with obstore: every error has a message without credentials."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from barnabas.tiering.stores import obstore_store
from barnabas.tiering.stores.obstore_store import BucketUrl, ObstoreStore
from barnabas.tiering.stores.opening import open_store
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
)
from tests.support.tiering.stores import BUCKET, SECRET, pieces, s3_options

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OPERATIONS: list[Callable[[ObjectStore], Awaitable[object]]] = [
    lambda store: store.get("object"),
    lambda store: store.get_range("object", 0, 1),
    lambda store: store.create("object", b"1"),
    lambda store: store.replace("object", b"1", '"version"'),
    lambda store: store.put("object", b"1"),
    lambda store: store.upload("object", pieces(b"1")),
    lambda store: store.delete("object"),
    lambda store: anext(aiter(store.list(""))),
]


@contextmanager
def told(kind: type[StoreError], *words: str) -> Iterator[None]:
    """An error of exactly this kind and text, without secrets."""
    with pytest.raises(StoreError) as caught:
        yield
    assert type(caught.value) is kind, caught.value
    assert all(word in caught.value.message for word in words), caught.value
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(status: str, code: str) -> Serve:
    """A store that gives one answer to everything."""
    body = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>"
    answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))
        writer.write(answer.encode())
        writer.close()

    return serve


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_missing_bucket_is_not_a_missing_object(
    operation: Callable[[ObjectStore], Awaitable[object]],
) -> None:
    async def main() -> None:
        async with served(answering("404 Not Found", "NoSuchBucket")) as port:
            store = open_store("s3://no-such-bucket/prefix", s3_options(port))
            with told(StoreDeniedError, "Bucket s3://no-such-bucket does not exist", "create it"):
                await operation(store)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "code", "kind", "advice"),
    [
        ("403 Forbidden", "AccessDenied", StoreDeniedError, "check the credentials"),
        ("403 Forbidden", "RequestTimeTooSkewed", StoreDeniedError, "this machine's clock"),
        ("401 Unauthorized", "", StoreDeniedError, "check the credentials"),
        ("403 Forbidden", "QuotaExceeded", StoreDeniedError, "is full (403 QuotaExceeded): free some space"),
        ("507 Insufficient Storage", "", StoreDeniedError, "is full (507): free some space"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", StoreDeniedError, "set rsm.config.region"),
        ("400 Bad Request", "InvalidArgument", StoreDeniedError, "check the URL"),
        ("404 Not Found", "", StoreDeniedError, "check the URL"),
        ("503 Slow Down", "SlowDown", StoreUnavailableError, "503 SlowDown"),
        ("429 Too Many Requests", "", StoreUnavailableError, "too busy"),
        ("409 Conflict", "ConditionalRequestConflict", ObjectExistsError, "already exists"),
    ],
)
def test_each_rejection_has_a_remedy(status: str, code: str, kind: type[StoreError], advice: str) -> None:
    async def main() -> None:
        async with served(answering(status, code)) as port:
            with told(kind, advice, "s3://bucket"):
                await open_store("s3://bucket", s3_options(port)).create("object", b"1")

    asyncio.run(main())


def test_a_store_that_is_not_there_cannot_be_reached() -> None:
    async def main() -> None:
        async with served(answering("200 OK", "")) as port:
            pass  # no listener there now
        store = open_store("s3://bucket", s3_options(port))
        with told(StoreUnavailableError, "cannot be reached", "no connection", "rsm.config.endpoint"):
            await store.create("object", b"1")

    asyncio.run(main())


def test_conditional_writes_that_are_switched_off_are_noticed() -> None:
    async def main() -> None:
        store = open_store("s3://bucket", s3_options(1) | {"conditional_put": "disabled"})
        with told(StoreDeniedError, "must not disable conditional writes"):
            await store.create("object", b"1")

    asyncio.run(main())


def test_a_conditional_write_without_an_answer_is_not_repeated() -> None:
    """It would conflict with its own effect, and report another writer."""
    requests = 0

    async def main() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            writer.close()

        async with served(hang_up) as port:
            store = open_store("s3://bucket", s3_options(port))
            with told(StoreUnavailableError, "no answer"):
                await store.replace("object", b"1", '"version"')
            assert requests == 1
            with told(StoreUnavailableError, "no answer"):
                await store.get("object")
            assert requests == 4

    asyncio.run(main())


def test_an_upload_without_progress_is_cancelled() -> None:
    async def main() -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with pytest.raises(asyncio.IncompleteReadError):
                await reader.readexactly(1 << 40)
            writer.close()

        async with served(say_nothing) as port:
            store = ObstoreStore(
                BucketUrl("s3", "bucket", ""), s3_options(port), without_progress_seconds=0.2
            )
            with told(StoreUnavailableError, "made no progress", "Check the network"):
                await store.upload("object", pieces(bytes(100)))
            del store

    asyncio.run(main())


def test_uploads_that_fail_or_are_cancelled_leave_no_parts(s3: dict[str, str]) -> None:
    async def main() -> None:
        store, waiting = open_store("s3://barnabas-tests/parts", s3), asyncio.Event()

        async def endless(*, fails: bool) -> AsyncIterator[bytes]:
            for _ in range(5):
                yield bytes(8 << 20)
            if fails:
                raise ValueError("the source fails")
            assert "<Upload>" in unfinished_uploads(s3)  # or nothing would be shown here
            waiting.set()
            await asyncio.Event().wait()

        with pytest.raises(ValueError, match="the source fails"):
            await store.upload("one", endless(fails=True))
        upload = asyncio.create_task(store.upload("two", endless(fails=False)))
        await waiting.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        assert "<Upload>" not in unfinished_uploads(s3)

    asyncio.run(main())


def unfinished_uploads(options: dict[str, str]) -> str:
    connection = http.client.HTTPConnection(options["endpoint"].removeprefix("http://"), timeout=60)
    connection.request("GET", "/barnabas-tests?uploads")
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("scheme", "options", "unsigned"),
    [
        ("s3", {}, True),
        ("s3", {"endpoint": "https://store.example"}, True),
        ("s3", {"endpoint": "http://store.example"}, False),
        ("s3", {"allow_http": "true"}, False),
        ("s3", {"unsigned_payload": "false"}, False),
        ("s3", {"endpoint": "http://store.example", "aws_unsigned_payload": "true"}, True),
        ("gs", {}, False),
    ],
)
def test_uploads_to_s3_are_hashed_only_without_tls(
    scheme: str, options: dict[str, str], unsigned: bool
) -> None:
    settings = obstore_store._for_uploads(BucketUrl(scheme, BUCKET, ""), options)
    assert (settings.get("unsigned_payload", settings.get("aws_unsigned_payload")) == "true") is unsigned


def test_s3_accepts_unhashed_payloads(s3: dict[str, str]) -> None:
    async def test() -> None:
        store = ObstoreStore(BucketUrl("s3", BUCKET, uuid.uuid4().hex), {**s3, "unsigned_payload": "true"})
        parts = [bytes([number]) * (16 << 20) for number in (1, 2)]
        await store.upload("object", pieces(*parts))
        assert await store.get_range("object", (16 << 20) - 1, (16 << 20) + 1) == b"\1\2"
        await store.close()

    asyncio.run(test())


def test_credentials_are_in_no_text() -> None:
    store = open_store("s3://bucket", s3_options(1))
    assert SECRET not in repr(store)
    assert SECRET not in repr(vars(store))


def test_a_lifetime_of_a_manifest_on_s3(s3: dict[str, str]) -> None:
    async def main(options: dict[str, str]) -> None:
        store = open_store("s3://barnabas-tests/one", options)
        with told(MissingObjectError, "manifest is not in s3://barnabas-tests"):
            await store.get("manifest")
        first = await store.create("manifest", b"1")
        await store.replace("manifest", b"2", first)
        with told(StaleVersionError, "has been replaced"):
            await store.replace("manifest", b"3", first)
        with told(StoreError, "truncated"):
            await store.get_range("manifest", 5, 9)
        other = open_store("s3://barnabas-tests/other", options)
        assert [info async for info in other.list("")] == []
        with told(StoreDeniedError, "Bucket s3://another-bucket does not exist"):
            await open_store("s3://another-bucket", options).get("manifest")

    asyncio.run(main(s3))


READER = """
import asyncio, json, sys
from barnabas.tiering.stores.opening import open_store

async def main():
    store = open_store(sys.argv[1], json.loads(sys.argv[2]))
    await store.put("object", bytes(8 << 20))
    async def some():
        for _ in range(6):
            await store.get_range("object", 0, 4 << 20)
    await asyncio.gather(*(some() for _ in range(4)))
    await store.close()

asyncio.run(main())
"""


def test_a_process_that_has_read_much_ends_as_any_other(s3: dict[str, str]) -> None:
    """obstore's threads outlive the last answer by a moment, and an interpreter that ends meanwhile is aborted."""
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", READER, url, json.dumps(s3)], check=False, timeout=120)
        assert done.returncode == 0


def test_only_so_many_requests_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a connection, and the leaders of thousands of partitions begin at the same moment."""
    monkeypatch.setattr(obstore_store, "MAX_REQUESTS", 3)
    running, most = 0, 0

    async def request() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async def scenario() -> None:
        store = ObstoreStore(BucketUrl("s3", "bucket", ""), s3_options(1))
        await asyncio.gather(*(store._do(f"key {number}", request) for number in range(20)))
        await store.close()

    asyncio.run(scenario())
    assert most == 3
