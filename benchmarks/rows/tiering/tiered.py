"""Shared parts of tiered rows: topics whose segments are copied to the object store, and waiting for the copies."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.client.cluster import Client
from barnabas.client.offsets import LATEST_TIERED, list_offsets
from barnabas.common.types import TopicPartition
from benchmarks.loads import client_command
from benchmarks.model import Metric
from benchmarks.session import Session
from benchmarks.subjects.object_store import BUCKET
from tests.support.programs import PROJECT_ROOT

GIB = 1 << 30
SHARED = "tiers"  # brokers and object store shared by consecutive rows
OBSTORE, RELAY = "obstore", "obstore and a connection"
MB_PER_SECOND = Metric("mb_per_second", "MB/s")
CPU_PER_GIB = Metric("cpu_per_gib", "s CPU/GiB", digits=2)
REQUESTS_PER_GIB = Metric("requests_per_gib", "requests/GiB")

NOT_TIERED = {"local.retention.bytes": "1", "retention.ms": "-1", "file.delete.delay.ms": "0"}
TIERED = {"remote.storage.enable": "true"}
_DEADLINE = 180.0
_LOOK_SECONDS = 0.05


def tiered_end(bootstrap: str, topic: str) -> int:
    """First offset of partition 0 that is not in the object store."""
    tp = TopicPartition(topic, 0)

    async def ask() -> int:
        async with Client(bootstrap) as client:
            return (await list_offsets(client, {tp: LATEST_TIERED}))[tp].offset + 1

    return asyncio.run(ask())


def until(holds: Callable[[], bool], what: str, every: float = _LOOK_SECONDS) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {_DEADLINE:g} s {what} not")
        time.sleep(every)


def with_obstore(session: Session, what: str, key: str, size: int) -> dict[str, float]:
    """Figures of obstore alone for an object of that size (clients/object_ranges.py)."""
    command = client_command("object_ranges", what, "--bucket", BUCKET, "--key", key, "--bytes", size)
    options = json.dumps(session.object_store().options) + "\n"
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, input=options, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"obstore ended with {done.returncode}: {done.stderr[-400:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def uploading(session: Session, size: int, rate: int) -> Iterator[dict[str, float]]:
    """Upload objects of that size from another process at `rate` bytes a second while the body runs. The figures are
    available after the block."""
    key = f"raw/{session.new_name()}"
    command = client_command("object_ranges", "put", "--bucket", BUCKET, "--key", key, "--bytes", size)
    figures: dict[str, float] = {}
    with subprocess.Popen(
        [*command, "--rate", str(rate)],
        cwd=PROJECT_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(session.object_store().options) + "\n")
        process.stdin.flush()
        process.stdout.readline()  # uploading has started
        try:
            yield figures
        finally:
            process.stdin.close()
            figures.update(json.loads(process.stdout.read() or "{}"))
