"""Whether work stays as cheap when there is more around it: partitions, and bytes in the log."""

from benchmarks.brokers import Broker
from benchmarks.loads import fill_log, producer_perf_test, request_load, with_cpu
from benchmarks.model import Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import CPU, RATE, subject
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session

_LOADED_PARTITIONS, _ALL_PARTITIONS, _PARTITIONS_PER_TOPIC = 10, 2_000, 90
_RECORDS, _FETCHES = 2_000_000, 20_000
_SMALL_LOG, _LARGE_LOG = 10_000_000, 5_000_000_000
FETCH_CPU = Metric("fetch_cpu", "µs CPU/fetch", digits=1)
FLAT = 1.15


def load(session: Session, broker: Broker, topic: str, partitions: int, end_offset: int) -> dict[str, float]:
    """Produces to the partitions, then fetches from offsets spread over their logs."""
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


def write_logs(session: Session) -> None:
    broker = session.broker("barnabas")
    for label, size in (("small", _SMALL_LOG), ("large", session.scaled(_LARGE_LOG))):
        topic = session.fresh_topic(broker, 1)
        records = fill_log(broker, topic, size)
        session.keep(broker, label, topic)
        session.keep(broker, f"{label} records", str(records))


def load_log(label: str) -> Subject:
    def measure(session: Session, broker: Broker) -> Figures:
        topic = session.kept(broker, label)
        records = int(session.kept(broker, f"{label} records"))
        return load(session, broker, topic, partitions=1, end_offset=records)

    return subject(f"{label} log", "barnabas", measure)


def flat(small: str, large: str) -> tuple[Target, ...]:
    rate = Target("rate", ">=", 1 / FLAT, relative_to=small, subject=large, or_within_spread=True)
    costs = (Target(key, "<=", FLAT, small, large, or_within_spread=True) for key in ("cpu", "fetch_cpu"))
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
        (load_log("small"), load_log("large")),
        (RATE, CPU, FETCH_CPU),
        flat("small log", "large log"),
        prepare=write_logs,
    ),
)
