"""The schema registry: lookup by id, registration and startup, over HTTP with one client. Barnabas only."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.client.schemas.client import Schema, SchemaClient
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session

_LOOKUPS, _REGISTRATIONS = 5_000, 300
_READY = "The schema registry is ready on "


def measure(session: Session) -> Figures:
    broker = session.new_broker("barnabas").start()
    try:
        with _registry(broker.bootstrap) as (url, seconds), SchemaClient(url) as client:
            _register(client, "first")
            names = [f"E{at}" for at in range(session.scaled(_REGISTRATIONS))]
            registered = sorted(_timed(_register, client, name) for name in names)
            looked_up = sorted(_timed(_look_up, client) for _ in range(session.scaled(_LOOKUPS)))
    finally:
        broker.stop()
    return {
        "lookup": 1000 * looked_up[int(len(looked_up) * 0.99)],
        "register": 1000 * registered[len(registered) // 2],
        "start": seconds,
    }


def _timed(work: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begin


def _register(client: SchemaClient, name: str) -> None:
    client.register(name, Schema("AVRO", json.dumps({"type": "enum", "name": name, "symbols": ["A"]})))


def _look_up(client: SchemaClient) -> None:
    client.request("GET", "/schemas/ids/1")  # not `client.schema`, which caches


@contextmanager
def _registry(bootstrap: str) -> Iterator[tuple[str, float]]:
    command = [sys.executable, "-m", "barnabas", "registry", "run", "--listen", "127.0.0.1:0"]
    begin = time.monotonic()
    process = subprocess.Popen(
        [*command, "--bootstrap-server", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.removeprefix(_READY).strip(), time.monotonic() - begin
    finally:
        process.terminate()
        process.wait()


ROWS = (
    Row(
        "registry",
        "schema registry: look-up by id (p99), registration (median), start",
        (Subject(BARNABAS, measure),),
        (Metric("lookup", "ms", 2), Metric("register", "ms", 2), Metric("start", "s", 2)),
        (Target("lookup", "<=", 2.0, relative_to=None), Target("register", "<=", 10.0, relative_to=None)),
        warm_up=False,
    ),
)
