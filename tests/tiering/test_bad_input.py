"""Defects of a bucket on a third-party S3: one clear message, and nothing is overwritten."""

from __future__ import annotations

import asyncio
import http.client
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import ForeignManifestError, ManifestWriter, decode, encode
from barnabas.tiering.objects.manifest_changes import new_manifest
from barnabas.tiering.objects.segment_object import read_footer
from barnabas.tiering.repair import verify
from barnabas.tiering.stores.opening import open_store
from barnabas.tiering.stores.store import ObjectStore, StoreDeniedError
from barnabas.tiering.writing.claim import claim_manifest
from tests.support.builders.segments import FOLDER, NOW
from tests.support.tiering.stores import BUCKET, SECRET, moto_server
from tests.tiering.partition_world import Leader, Replica, Truth
from tests.tiering.test_obstore_store import told


def new_prefix() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


async def copy(store: ObjectStore, epoch: int = 1, count: int = 20) -> Leader:
    """Copy a number of records like a leader."""
    leader = Leader(store, Replica(Truth(), 5), epoch)
    await leader.work(leader.append(count), leader.copy)
    assert not leader.fenced
    return leader


async def everything_in(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: (await store.get(info.key)).data async for info in store.list("")}


def test_a_wrong_url_names_the_missing_bucket(s3: dict[str, str]) -> None:
    async def main() -> None:
        with told(StoreDeniedError, "Bucket s3://barnabas-tets does not exist", "create it, or correct"):
            await copy(open_store("s3://barnabas-tets", s3))

    asyncio.run(main())


def test_missing_rights_are_reported() -> None:
    async def main(options: dict[str, str]) -> None:
        store = open_store(new_prefix(), options)
        for attempt in (copy(store), everything_in(store)):
            with told(StoreDeniedError, f"s3://{BUCKET}", "denies access", "check the credentials"):
                await attempt

    with moto_server({"INITIAL_NO_AUTH_ACTION_COUNT": "1"}) as options:
        asyncio.run(main(options))


def test_a_bucket_may_hold_other_clusters_and_a_manifest_of_one_is_left_alone(s3: dict[str, str]) -> None:
    other = PartitionFolder("another-cluster", *FOLDER[1:])
    strange = encode(new_manifest(other, ManifestWriter(0, 1, "theirs"), 0))

    async def main() -> None:
        store = open_store(new_prefix(), s3)
        await store.put(other.manifest, strange)
        await store.put(other.key("00000000000000000000-0000000000-00000000.segment"), b"theirs")
        before = await everything_in(store)
        await copy(store)
        assert before.items() <= (await everything_in(store)).items()
        await store.put(FOLDER.manifest, strange)
        before = await everything_in(store)
        with told(
            ForeignManifestError, FOLDER.manifest, "another-cluster", "is this the right bucket and prefix?"
        ):
            await copy(store, epoch=2)
        assert await everything_in(store) == before

    asyncio.run(main())


@pytest.mark.parametrize(
    "damaged", [b"", b"<html>not here</html>", None], ids=["empty", "foreign", "truncated"]
)
def test_modified_object_is_named_and_kept(s3: dict[str, str], damaged: bytes | None) -> None:
    async def main() -> None:
        store = open_store(new_prefix(), s3)
        leader = await copy(store)
        entry = leader.file.manifest.entries[1]
        key = FOLDER.key(entry.key)
        complete = (await store.get(key)).data
        await store.put(key, complete[: len(complete) // 2] if damaged is None else damaged)
        before = await everything_in(store)
        with pytest.raises(Exception, match=entry.key):
            await read_footer(store, key, entry)
        problems = [each async for each in verify(store, FOLDER, leader.file.manifest) if each.problem]
        assert [each.key for each in problems] == [key]
        assert key in (problems[0].problem or "")
        assert await everything_in(store) == before

    asyncio.run(main())


def test_a_damaged_manifest_stops_writing_and_stays_as_it_is(s3: dict[str, str]) -> None:
    async def main() -> None:
        store = open_store(new_prefix(), s3)
        leader = await copy(store)
        complete = (await store.get(FOLDER.manifest)).data
        await store.put(FOLDER.manifest, complete[: len(complete) // 2])
        before = await everything_in(store)
        view = leader.replica.view()
        with pytest.raises(Exception, match=r"is damaged.*barnabas tier repair orders"):
            await claim_manifest(store, FOLDER, ManifestWriter(0, 2, "two"), view, NOW)
        assert await everything_in(store) == before

    asyncio.run(main())


def test_full_bucket_is_reported_and_copied_segments_stay(s3: dict[str, str]) -> None:
    async def main(full: dict[str, str]) -> None:
        url = new_prefix()
        store = open_store(url, s3)
        await copy(store)
        before = await everything_in(store)
        leader = Leader(open_store(url, full), Replica(Truth(), 5), 2)
        leader.replica.truth.append(40, 1)
        with told(StoreDeniedError, "is full (403 QuotaExceeded): free some space"):
            await leader.work(leader.copy)
        assert await everything_in(store) == before
        assert decode(before[FOLDER.manifest], FOLDER).tiered_end == 20

    with full_bucket(s3["endpoint"]) as endpoint:
        asyncio.run(main({**s3, "endpoint": endpoint}))


@contextmanager
def full_bucket(endpoint: str) -> Iterator[str]:
    """The same bucket, full: reads are forwarded, writes rejected."""
    where = urlsplit(endpoint)

    class Full(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
            connection.request(self.command, self.path, headers=dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in (
                    "connection",
                    "transfer-encoding",
                    "content-length",
                    "date",
                    "server",
                ):
                    self.send_header(name, value)
            length = answer.getheader("content-length") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        do_HEAD = do_GET  # noqa: N815 - as the server asks for it

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = f"<Error><Code>QuotaExceeded</Code><Message>{SECRET}</Message></Error>".encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT  # noqa: N815 - as the server asks for it

        def log_message(self, *args: object) -> None:
            """Suppress the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Full)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
