"""Barnabas' mirror compared with MirrorMaker 2, between the same two Barnabas brokers: rate, cost, lag.

The measurement starts with the first record in the target, so that JVM startup is excluded.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.client.cluster import Client
from barnabas.client.mirrors.control import mirrors_of, promote
from barnabas.client.offsets import end_offsets
from benchmarks import wire
from benchmarks.clients.fill import send_batches
from benchmarks.loads import client
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.mirrors import Mirror, barnabas_mirror, mirror_maker, reason_mirror_maker_is_missing

MIRROR_MAKER = "MirrorMaker 2"
_TOPICS, _BYTES = 4, 1 << 30
_RECORD_BYTES, _RECORDS_PER_BATCH = 1000, 60
_PARTITIONS = 1000
_TIMEOUT = 300.0

Start = Callable[[Broker, Broker, str, Path], Mirror]


@contextmanager
def _two_brokers(session: Session) -> Iterator[tuple[Broker, Broker]]:
    brokers = [session.new_broker("barnabas").start() for _ in range(2)]
    try:
        yield brokers[0], brokers[1]
    finally:
        for broker in brokers:
            broker.stop()


def _copying(start: Start) -> Callable[[Session], Figures]:
    def measure(session: Session) -> Figures:
        size = session.scaled(_BYTES)
        with _two_brokers(session) as (source, target):
            names = [session.fresh_topic(source, 1) for _ in range(_TOPICS)]
            total = sum(_fill(source, name, size // _TOPICS) for name in names)
            session.settle()
            with start(source, target, "bench-.*", _folder(session)) as mirror:
                begin, cpu = _until(mirror, target, names, 1)
                brokers = source.cpu_seconds() + target.cpu_seconds()
                end, cpu_end = _until(mirror, target, names, total)
                brokers = source.cpu_seconds() + target.cpu_seconds() - brokers
        gigabytes = size / 1e9
        return {
            "mb_s": size / 1e6 / (end - begin),
            "cpu": (cpu_end - cpu) / gigabytes,
            "brokers_cpu": brokers / gigabytes,
        }

    return measure


def _fill(broker: Broker, topic: str, size: int) -> int:
    """Fill a topic and return the number of records."""
    batch = wire.record_batch(_RECORD_BYTES, _RECORDS_PER_BATCH)
    batches = max(1, size // len(batch))
    send_batches("127.0.0.1", broker.port, topic, itertools.repeat(batch, batches))
    return batches * _RECORDS_PER_BATCH


def _until(mirror: Mirror, target: Broker, names: list[str], records: int) -> tuple[float, float]:
    """Wait until the target has `records` records; return that moment and the CPU seconds of the mirror."""

    async def wait() -> tuple[float, float]:
        deadline = time.monotonic() + _TIMEOUT
        async with Client(target.bootstrap) as client:
            while time.monotonic() < deadline:
                mirror.check()
                there = await client.all_topics()
                known = [name for name in names if name in there]
                found = await end_offsets(client, await client.partitions(known)) if known else {}
                if sum(found.values()) >= records:
                    return time.monotonic(), mirror.cpu_seconds()
                await asyncio.sleep(0.02)
        raise RuntimeError(f"the target had no {records} records after {_TIMEOUT:g} s")

    return asyncio.run(wait())


def _lagging(start: Start) -> Callable[[Session], Figures]:
    def measure(session: Session) -> Figures:
        with _two_brokers(session) as (source, target):
            name = session.fresh_topic(source, 1)
            _fill(source, name, 100_000)
            with start(source, target, name, _folder(session)) as mirror:
                _until(mirror, target, [name], 1)
                seconds = max(5, session.scaled(20))
                options = ("--rate", 10_000, "--bytes", 1000, "--seconds", seconds, "--from-now")
                ends = ("--bootstrap", source.bootstrap, "--read-from", target.bootstrap)
                found = client("end_to_end", *ends, "--topic", name, *options)
        return {"p50_ms": found["p50_us"] / 1000, "p99_ms": found["p99_us"] / 1000}

    return measure


def _promotion(session: Session) -> Figures:
    with _two_brokers(session) as (source, target):
        partitions = session.scaled(_PARTITIONS)
        names = [session.fresh_topic(source, partitions // 4 or 1) for _ in range(4)]
        total = sum(_fill(source, name, 100_000) for name in names)
        with barnabas_mirror(source, target, "bench-.*", _folder(session)) as mirror:
            _until(mirror, target, names, total)
            return {"seconds": asyncio.run(_promote(source, target))}


async def _promote(source: Broker, target: Broker) -> float:
    async with Client(target.bootstrap) as target_client, Client(source.bootstrap) as source_client:
        mirrors = await mirrors_of(target_client)
        begin = time.monotonic()
        await promote(target_client, mirrors, source_client, 60.0)
        return time.monotonic() - begin


def _folder(session: Session) -> Path:
    folder = session.scratch / session.new_name()
    folder.mkdir()
    return folder


ROWS = (
    Row(
        "mirror-copy",
        "mirror of 1 GiB in records of 1 KB, 4 topics: speed, CPU of the mirror and of both brokers a GB",
        (Subject(MIRROR_MAKER, _copying(mirror_maker)), Subject(BARNABAS, _copying(barnabas_mirror))),
        (Metric("mb_s", "MB/s"), Metric("cpu", "CPU s/GB", 2), Metric("brokers_cpu", "brokers' CPU s/GB", 2)),
        (
            Target("mb_s", ">=", 3.0, relative_to=MIRROR_MAKER),
            Target("cpu", "<=", 0.3, relative_to=MIRROR_MAKER),
        ),
        missing=reason_mirror_maker_is_missing,
        warm_up=False,
    ),
    Row(
        "mirror-lag",
        "from produce() at the source to a consumer of the mirror, at 10 MB/s",
        (Subject(MIRROR_MAKER, _lagging(mirror_maker)), Subject(BARNABAS, _lagging(barnabas_mirror))),
        (Metric("p50_ms", "ms p50", 1), Metric("p99_ms", "ms p99", 1)),
        (Target("p99_ms", "<=", 200.0, relative_to=None),),
        missing=reason_mirror_maker_is_missing,
        warm_up=False,
    ),
    Row(
        "mirror-promote",
        "promotion of 1,000 partitions",
        (Subject(BARNABAS, _promotion),),
        (Metric("seconds", "s", 2),),
        (Target("seconds", "<=", 5.0, relative_to=None),),
        warm_up=False,
    ),
)
