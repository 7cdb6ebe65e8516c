"""Cost of requests as the number of partitions and the size of the log grow."""

from benchmarks.loads import fill_log, producer_perf_test, request_load, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import CPU, RATE, subject
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_LOADED_PARTITIONS, _ALL_PARTITIONS, _PARTITIONS_PER_TOPIC = 10, 2_000, 90
_RECORDS, _FETCHES = 2_000_000, 20_000
_SMALL_LOG, _LARGE_LOG = 10_000_000, 5_000_000_000
FETCH_CPU = Metric("fetch_cpu", "µs CPU/fetch", digits=1)
FLAT = 0.15


def load(session: Session, broker: Broker, topic: str, partitions: int, end_offset: int) -> dict[str, float]:
    """Produce to the partitions, then fetch from offsets spread over their logs."""
    records, fetches = session.scaled(_RECORDS), session.scaled(_FETCHES)
    properties = {"acks": "1", **BATCHES_OF_128_KB}
    figures = with_cpu(broker, lambda: producer_perf_test(broker, topic, records, 100, properties))
    fetching = with_cpu(
        broker,
        lambda: request_load(
            broker,
            "fetch",
            topic,
            partitions=partitions,
            connections=20,
            requests=fetches,
            end_offset=end_offset,
        ),
    )
    return {**figures, "fetch_cpu": fetching["cpu"] / fetches * 1e6}


def load_ten_partitions(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, _LOADED_PARTITIONS)
    figures = load(session, broker, topic, _LOADED_PARTITIONS, end_offset=0)
    session.delete_topic(broker, topic)
    return figures


def create_many_partitions(session: Session) -> None:
    broker = session.broker("barnabas-many-partitions")
    topics = (session.scaled(_ALL_PARTITIONS) - _LOADED_PARTITIONS) // _PARTITIONS_PER_TOPIC
    session.create_topics(broker, {f"crowd-{number}": _PARTITIONS_PER_TOPIC for number in range(topics)})


def filled_topic(session: Session, broker: Broker, size: int) -> tuple[str, int]:
    """A new topic with a log of that size, and its end offset."""
    topic = session.fresh_topic(broker, 1)
    return topic, fill_log(broker, topic, size)


def write_large_log(session: Session) -> None:
    broker = session.broker("barnabas")
    topic, records = filled_topic(session, broker, session.scaled(_LARGE_LOG))
    session.keep(broker, "large log", topic)
    session.keep(broker, "records in large log", str(records))


def load_small_log(session: Session, broker: Broker) -> Figures:
    """Use a new log each time, since the load makes it grow."""
    topic, records = filled_topic(session, broker, _SMALL_LOG)
    figures = load(session, broker, topic, 1, records)
    session.delete_topic(broker, topic)
    return figures


def load_large_log(session: Session, broker: Broker) -> Figures:
    records = int(session.kept(broker, "records in large log"))
    return load(session, broker, session.kept(broker, "large log"), 1, records)


def flat(small: str, large: str) -> tuple[Target, ...]:
    rate = Target("rate", ">=", 1 - FLAT, relative_to=small, subject=large, or_within_spread=True)
    costs = (Target(key, "<=", 1 + FLAT, small, large, or_within_spread=True) for key in ("cpu", "fetch_cpu"))
    return (rate, *costs)


ROWS = (
    Row(
        "growth-partitions",
        "10 partitions loaded while 2,000 exist, compared with 10",
        (
            subject("10 partitions", "barnabas-few-partitions", load_ten_partitions),
            subject("2,000 partitions", "barnabas-many-partitions", load_ten_partitions),
        ),
        (RATE, CPU, FETCH_CPU),
        flat("10 partitions", "2,000 partitions"),
        prepare=create_many_partitions,
    ),
    Row(
        "growth-log",
        "a 5 GB log compared with one of 10 MB",
        (
            subject("small log", "barnabas", load_small_log),
            subject("large log", "barnabas", load_large_log),
        ),
        (RATE, CPU, FETCH_CPU),
        flat("small log", "large log"),
        prepare=write_large_log,
    ),
)
