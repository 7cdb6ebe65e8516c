"""The contract suite and the probe with third-party object stores: `make object-stores`.

    python -m tests.tiering.counterparts FOLDER    # where `make object-stores-install` has put them

Prints a table for docs/proof/object-stores.md.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import NamedTuple

from barnabas.tiering.stores.probe import UnsoundStoreError, probe
from tests.support.programs import free_port
from tests.support.tiering.stores import BUCKET, NAMED, NAMED_OPTIONS, make_bucket, named_store, s3_options
from tests.support.waiting import retry, still_running

PROBES = 20
START_SECONDS = 120
ACCOUNT, ACCOUNT_KEY = "barnabas", base64.b64encode(b"a key for tests").decode()
AZURE_VERSION = "2021-08-06"


class Counterpart(NamedTuple):
    name: str
    program: str
    """In the folder."""
    command: Callable[[str, int, str], list[str]]
    """Its program, a port, and a folder of its own."""
    prepare: Callable[[int], None]
    url: str
    options: Callable[[int], dict[str, str]]
    is_sound: bool = True


def _versitygw(program: str, port: int, data: str) -> list[str]:
    Path(data, BUCKET).mkdir()  # folders are buckets
    return [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", data]


def _azurite(program: str, port: int, data: str) -> list[str]:
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    return [
        "node",
        program,
        *where,
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--silent",
    ]


def _s3mock(program: str, port: int, data: str) -> list[str]:
    return ["java", "-jar", program, "--server.port=0", f"--com.adobe.testing.s3mock.httpPort={port}"]


def _make_container(port: int) -> None:
    """Azure's shared key signs the headers and the resource."""
    date = formatdate(usegmt=True)
    signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{AZURE_VERSION}\n"
    signed += f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    signature = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": AZURE_VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}",
        "Content-Length": "0",
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{ACCOUNT}/{BUCKET}?restype=container", headers=headers)
    assert connection.getresponse().status == 201
    connection.close()


def _azure_options(port: int) -> dict[str, str]:
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    return {"endpoint": endpoint, "account_name": ACCOUNT, "account_key": ACCOUNT_KEY}


COUNTERPARTS = [
    Counterpart("versitygw", "versitygw", _versitygw, lambda port: None, f"s3://{BUCKET}", s3_options),
    Counterpart(
        "azurite",
        "node_modules/azurite/dist/src/blob/main.js",
        _azurite,
        _make_container,
        f"az://{BUCKET}",
        _azure_options,
    ),
    Counterpart(
        "s3mock",
        "s3mock-4.8.0-exec.jar",
        _s3mock,
        lambda port: make_bucket(port, BUCKET),
        f"s3://{BUCKET}",
        s3_options,
        is_sound=False,
    ),
]


@contextmanager
def running(counterpart: Counterpart, program: Path) -> Iterator[int]:
    port = free_port()
    secrets = {"ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": s3_options(port)["secret_access_key"]}
    accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with tempfile.TemporaryDirectory() as data:
        command = counterpart.command(str(program), port, data)
        server = subprocess.Popen(
            command,
            env=os.environ | secrets | accounts,
            cwd=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port, server)
            counterpart.prepare(port)
            yield port
        finally:
            server.kill()
            server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    what = f"{server.args!r} does not listen on port {port}"
    connect = partial(socket.create_connection, ("127.0.0.1", port), 1)
    retry(lambda: connect().close(), OSError, what, START_SECONDS, meanwhile=still_running(server, what))


def passed(tests: str) -> str:
    """The last line of pytest's report."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, tests], capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1].partition(" in ")[0]


def refusals() -> int:
    """Of PROBES probes."""

    async def refused() -> bool:
        store = named_store()
        try:
            await probe(store)
        except UnsoundStoreError:
            return True
        finally:
            await store.close()
        return False

    return sum(asyncio.run(refused()) for _ in range(PROBES))


def main() -> int:
    folder, failures = Path(sys.argv[1]).resolve(), 0
    print(f"| store | contract suite | pipelines over s3a | refused by the probe, of {PROBES} | expected |")
    print("|---|---|---|---|---|")
    for counterpart in COUNTERPARTS:
        program = folder / counterpart.program
        if not program.exists():
            print(f"| {counterpart.name} | not installed: make object-stores-install | | | |")
            continue
        with running(counterpart, program) as port:
            os.environ[NAMED] = counterpart.url
            os.environ[NAMED_OPTIONS] = json.dumps(counterpart.options(port))
            results, refused = passed("tests/tiering/test_contract.py"), refusals()
            has_pipelines = counterpart.is_sound and counterpart.url.startswith("s3:")
            pipelines = passed("tests/pipelines/lake/test_object_store.py") if has_pipelines else "-"
        expected = "sound" if counterpart.is_sound else "refused every time"
        failures += refused != (0 if counterpart.is_sound else PROBES) or (
            counterpart.is_sound and "failed" in results + pipelines
        )
        print(f"| {counterpart.name} | {results} | {pipelines} | {refused} | {expected} |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
