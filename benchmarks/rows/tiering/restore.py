"""Loss of all brokers: a cluster is restored from the object store, and a broker serves all of its partitions."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient

from barnabas.tiering.stores.opening import open_store
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.cluster import SECONDS
from benchmarks.rows.tiering.tiered import until
from benchmarks.session import Session
from benchmarks.subjects.object_store import missing
from tests.broker.restore.many_partitions import CLUSTER, fill

_BROKER = "barnabas-tiers"
_PARTITIONS = 1_000
LONGEST = 30.0
COMMAND = Metric("command_seconds", "s of these, the command", digits=2)
REQUESTS = Metric("requests", "requests/partition", digits=1)


def prepare(session: Session) -> None:
    """Create a store with partitions of three small segments each, as left by lost brokers."""
    found = session.object_store()

    async def write() -> None:
        store = open_store(found.url, found.options)
        await fill(store, session.scaled(_PARTITIONS))
        await store.close()

    asyncio.run(write())


def restore(session: Session) -> Figures:
    """Time from the command until a broker leads all partitions."""
    store = session.object_store()
    broker = session.new_broker(_BROKER)
    broker.prepare()
    folder = broker.partition_dir("x", 0).parent
    requests, begin = store.requests(), time.perf_counter()
    run_restore(session, folder)
    command = time.perf_counter() - begin
    broker.launch_and_wait()
    try:
        until(lambda: led(broker.bootstrap) == session.scaled(_PARTITIONS), "all partitions are led")
        seconds = time.perf_counter() - begin
    finally:
        broker.stop()
    requests_made = (store.requests() - requests) / session.scaled(_PARTITIONS)
    return {"seconds": seconds, "command_seconds": command, "requests": requests_made}


def run_restore(session: Session, folder: Path) -> None:
    store = session.object_store()
    program = [str(Path(sys.executable).parent / "barnabas"), "cluster", "restore", store.url]
    options = [part for name, value in store.options.items() for part in ("--option", f"{name}={value}")]
    command = [*program, "--data", str(folder), "--cluster-id", CLUSTER, "--yes", "--accept-loss", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        raise RuntimeError(f"the restore ended with {done.returncode}: {done.stderr[-400:]}")


def led(bootstrap: str) -> int:
    """Number of partitions that have a leader."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    return sum(part.leader >= 0 for topic in topics.values() for part in topic.partitions.values())


ROWS = (
    Row(
        "tier-restore",
        "all brokers are lost: 1,000 partitions come back from the object store",
        (Subject(BARNABAS, restore),),
        (SECONDS, COMMAND, REQUESTS),
        (Target("seconds", "<=", LONGEST, relative_to=None),),
        prepare=prepare,
        missing=missing,
        warm_up=False,
    ),
)
