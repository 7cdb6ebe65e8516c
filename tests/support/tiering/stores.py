"""Object stores for tests: in memory, a folder, moto's S3, and one from the environment.

BARNABAS_TEST_STORE=s3://bucket BARNABAS_TEST_STORE_OPTIONS='{"endpoint": "..."}' pytest tests/tiering/test_contract.py
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barnabas.testing.objects import MemoryObjectStore
from barnabas.tiering.stores.opening import FolderStore, open_store
from barnabas.tiering.stores.store import BrowsableStore

BUCKET = "barnabas-tests"
NAMED = "BARNABAS_TEST_STORE"
NAMED_OPTIONS = "BARNABAS_TEST_STORE_OPTIONS"
SECRET = "the-secret-key-of-moto"

MakeStore = Callable[[], BrowsableStore]


@contextmanager
def moto_server(environment: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Runs an S3 service and yields the options that open it; its bucket exists."""
    command = [sys.executable, str(Path(__file__).with_name("atomic_moto.py"))]
    server = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        assert server.stderr is not None
        port = next(
            int(found[1]) for line in server.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line))
        )
        # It logs every request, and would block once the pipe is full.
        draining = threading.Thread(target=server.stderr.read, daemon=True)
        draining.start()
        make_bucket(port, BUCKET)
        yield s3_options(port)
    finally:
        server.kill()
        server.wait()
        draining.join()
        if server.stderr is not None:
            server.stderr.close()


def make_bucket(port: int, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{name}")
    assert connection.getresponse().status == 200
    connection.close()


def s3_options(port: int) -> dict[str, str]:
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": "tests",
        "secret_access_key": SECRET,
        "connect_timeout": "60s",  # the machine may be busy
        "timeout": "60s",
    }


def memory_store() -> BrowsableStore:
    return MemoryObjectStore()


def folder_store(folder: Path) -> MakeStore:
    return lambda: FolderStore(str(folder))


def bucket_store(options: dict[str, str]) -> MakeStore:
    """Each test has a separate prefix."""
    return lambda: open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}", options)


def named_store() -> BrowsableStore:
    url, options = os.environ[NAMED], json.loads(os.environ.get(NAMED_OPTIONS, "{}"))
    return open_store(f"{url}/{uuid.uuid4().hex}", options)


async def pieces(*some: bytes) -> AsyncIterator[bytes]:
    for piece in some:
        yield piece
