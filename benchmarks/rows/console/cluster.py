"""The console with a large cluster: duration of a refresh, and page latency meanwhile. Barnabas only; the reference is
kafbat#1776, where a cluster of this size takes 50 to 90 s and blocks the pages."""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects.processes import resident_bytes

_TOPICS, _PARTITIONS, _GROUPS = 9_000, 39_000, 2_200
_SECONDS = 40.0  # four refreshes, one of which also reads sizes
_TIMEOUT = 120.0
_READY = "The console is ready on http://"
_PAGES = (
    "/",
    "/topics",
    "/topics?sort=lag",
    "/topics?q=events-77",
    "/topics?page=90",
    "/groups",
    "/groups?sort=name",
)


def measure_large(session: Session) -> Figures:
    broker = session.new_broker("barnabas").start()
    try:
        sizes = {"topics": _TOPICS, "partitions": _PARTITIONS, "groups": _GROUPS}
        options = [part for name, size in sizes.items() for part in (f"--{name}", str(session.scaled(size)))]
        fill = [
            sys.executable,
            "-m",
            "benchmarks.clients.cluster_fill",
            "--bootstrap",
            broker.bootstrap,
            *options,
        ]
        subprocess.run(fill, check=True)
        with _console(broker.bootstrap) as (_, address):
            refreshes, pages = _look(address)
    finally:
        broker.stop()
    return {"refresh": max(refreshes), "page": 1000 * sorted(pages)[int(len(pages) * 0.95)]}


def measure_small(session: Session) -> Figures:
    broker = session.new_broker("barnabas").start()
    try:
        session.create_topics(broker, {f"topic-{number}": 4 for number in range(10)})
        with _console(broker.bootstrap) as (process, address):
            _look(address)
            return {"memory": resident_bytes(process.pid) / 1e6}
    finally:
        broker.stop()


def _look(address: str) -> tuple[list[float], list[float]]:
    """Seconds of each refresh, and of each page requested meanwhile, one at a time."""
    connection = http.client.HTTPConnection(address, timeout=60)
    deadline = time.monotonic() + _TIMEOUT
    while not _figures(connection)["taken_ms"]:
        assert time.monotonic() < deadline, "the console saw no cluster"
        time.sleep(0.1)
    refreshes: dict[int, float] = {}
    pages: list[float] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        for path in _PAGES:
            begin = time.perf_counter()
            _get(connection, f"/c/default{path}")
            pages.append(time.perf_counter() - begin)
        figures = _figures(connection)
        refreshes[figures["taken_ms"]] = figures["took_seconds"]
    connection.close()
    return list(refreshes.values()), pages


def _figures(connection: http.client.HTTPConnection) -> Any:
    return json.loads(_get(connection, "/api/v1/c/default/groups"))["figures"]


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return body


@contextmanager
def _console(bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "barnabas", "console", "--listen", "127.0.0.1:0", "--data", data]
        process = subprocess.Popen(
            [*command, "--bootstrap-server", bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().removeprefix(_READY).strip()
        finally:
            process.terminate()
            process.wait()


ROWS = (
    Row(
        "console-cluster",
        "console with 9,000 topics, 39,000 partitions, 2,200 groups: refresh, and pages meanwhile (p95)",
        (Subject(BARNABAS, measure_large),),
        (Metric("refresh", "s", 2), Metric("page", "ms", 1)),
        (Target("refresh", "<=", 5.0, relative_to=None), Target("page", "<=", 200.0, relative_to=None)),
        warm_up=False,
    ),
    Row(
        "console-memory",
        "console with ten topics: resident memory",
        (Subject(BARNABAS, measure_small),),
        (Metric("memory", "MB", 1),),
        (Target("memory", "<=", 80.0, relative_to=None),),
        warm_up=False,
    ),
)
