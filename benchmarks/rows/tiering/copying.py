"""Copying a segment to the object store, and reading it back cold."""

import time

from benchmarks.loads import client, fill_log
from benchmarks.model import BARNABAS, Figures, Row, Subject, Target
from benchmarks.rows.tiering.tiered import (
    CPU_PER_GIB,
    GIB,
    MB_PER_SECOND,
    NOT_TIERED,
    OBSTORE,
    RELAY,
    REQUESTS_PER_GIB,
    SHARED,
    TIERED,
    tiered_end,
    until,
    with_obstore,
)
from benchmarks.session import Session
from benchmarks.subjects.object_store import missing

_BROKER = "barnabas-tiers"
_TAIL = 32 << 20  # bytes in the active segment, so that the previous one is sealed
_SELDOM = 0.4  # seconds between polls, which cost the broker a few milliseconds each
COPY_CPU, COPY_REQUESTS = 1.5, 70
READ_RATE, READ_CPU, READ_REQUESTS = 0.8, 1.2, 260


def segment_bytes(session: Session) -> int:
    """Kafka's default segment size: requests are counted per GiB, and smaller segments need more of them."""
    return session.scaled(GIB)


def full_topic(session: Session) -> tuple[str, int]:
    """A topic with one sealed segment that is not copied yet, and its number of records."""
    broker = session.broker(_BROKER)
    size = segment_bytes(session)
    topic = session.fresh_topic(broker, 1, {**NOT_TIERED, "segment.bytes": str(size)})
    return topic, fill_log(broker, topic, size + _TAIL)


def copy(session: Session) -> Figures:
    """Time from making a topic tiered until its sealed segment is in the store."""
    broker, store = session.broker(_BROKER), session.object_store()
    topic, _ = full_topic(session)
    session.settle()
    requests, cpu, begin = store.requests(), broker.cpu_seconds(), time.perf_counter()
    session.alter_topic(broker, topic, TIERED)
    until(lambda: tiered_end(broker.bootstrap, topic) > 0, "the segment is copied", _SELDOM)
    seconds, cpu = time.perf_counter() - begin, broker.cpu_seconds() - cpu
    size = _copied_bytes(session, topic)
    requests_made = store.requests_from(
        "CreateMultipartUpload", requests
    )  # excludes the claim, made once per leader
    session.keep(broker, "remote topic", topic)
    return {
        "mb_per_second": size / seconds / 1e6,
        "cpu_per_gib": cpu / size * GIB,
        "requests_per_gib": requests_made / size * GIB,
    }


def _copied_bytes(session: Session, topic: str) -> int:
    return sum(size for key, size in session.object_store().objects(".segment") if f"/{topic}." in key)


def upload_alone(session: Session) -> Figures:
    return with_obstore(session, "put", f"raw/{session.new_name()}", segment_bytes(session))


def prepare_reading(session: Session) -> None:
    """Use the topic that was copied last, or a new one if this row runs alone."""
    broker = session.broker(_BROKER)
    try:
        topic = session.kept(broker, "remote topic")
    except KeyError:
        topic, _ = full_topic(session)
        session.alter_topic(broker, topic, TIERED)
        until(lambda: tiered_end(broker.bootstrap, topic) > 0, "the segment is copied")
        session.keep(broker, "remote topic", topic)
    folder = broker.partition_dir(topic, 0)
    until(lambda: len(list(folder.glob("*.log"))) == 1, "the copied segment has left the disk")


def read(session: Session) -> Figures:
    broker, store = session.broker(_BROKER), session.object_store()
    topic = session.kept(broker, "remote topic")
    end = tiered_end(broker.bootstrap, topic)
    requests, cpu = store.requests(), broker.cpu_seconds()
    figures = client("log_reader", "--port", broker.port, "--topic", topic, "--end-offset", end)
    gib = figures["bytes"] / GIB
    return {
        "mb_per_second": figures["mb_per_second"],
        "cpu_per_gib": (broker.cpu_seconds() - cpu) / gib,
        "requests_per_gib": (store.requests() - requests) / gib,
    }


def ranges_alone(session: Session) -> Figures:
    return _ranges(session, "get")


def ranges_relayed(session: Session) -> Figures:
    return _ranges(session, "relay")


def _ranges(session: Session, how: str) -> Figures:
    topic = session.kept(session.broker(_BROKER), "remote topic")
    key, size = next(
        found for found in session.object_store().objects(".segment") if f"/{topic}." in found[0]
    )
    return with_obstore(session, how, key, size)


ROWS = (
    Row(
        "tier-copy",
        "a segment of 1 GiB is copied to the object store, as fast as it goes",
        (Subject(OBSTORE, upload_alone), Subject(BARNABAS, copy)),
        (MB_PER_SECOND, CPU_PER_GIB, REQUESTS_PER_GIB),
        (
            Target("cpu_per_gib", "<=", COPY_CPU, relative_to=None),
            Target("requests_per_gib", "<=", COPY_REQUESTS, relative_to=None),
        ),
        missing=missing,
        warm_up=False,
        shares=SHARED,
    ),
    Row(
        "tier-read",
        "1 GiB is read that is in the object store only",
        (Subject(OBSTORE, ranges_alone), Subject(RELAY, ranges_relayed), Subject(BARNABAS, read)),
        (MB_PER_SECOND, CPU_PER_GIB, REQUESTS_PER_GIB),
        (
            Target("mb_per_second", ">=", READ_RATE, relative_to=OBSTORE),
            Target("mb_per_second", ">=", READ_RATE, relative_to=RELAY),
            Target("cpu_per_gib", "<=", READ_CPU, relative_to=None),
            Target("requests_per_gib", "<=", READ_REQUESTS, relative_to=None),
        ),
        prepare=prepare_reading,
        missing=missing,
        shares=SHARED,
    ),
)
