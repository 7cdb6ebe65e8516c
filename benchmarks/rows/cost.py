"""CPU seconds per GiB produced in 128 KB batches, compared with the floor measured in the same run."""

from benchmarks.floors import floor
from benchmarks.loads import producer_perf_test
from benchmarks.model import Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import both
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_RECORDS = 4_000_000


def cpu_per_gib(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, 1)
    before = broker.cpu_seconds()
    properties = {"acks": "1", **BATCHES_OF_128_KB}
    producer_perf_test(broker, topic, session.scaled(_RECORDS), 100, properties)
    used = broker.cpu_seconds() - before
    size = broker.log_bytes(topic, partitions=1)
    session.delete_topic(broker, topic)
    return {"cpu_per_gib": used * floor.GIB / size}


def cpu_per_gib_floor(session: Session) -> Figures:
    return floor.cpu_per_gib(session.scratch, session.scaled(floor.GIB))


ROWS = (
    Row(
        "cpu-per-gib",
        "broker CPU per GiB in 128 KB batches of 100 B records",
        (*both(cpu_per_gib), Subject("floor", cpu_per_gib_floor)),
        (
            Metric("cpu_per_gib", "s CPU/GiB", digits=2),
            Metric("recv", "s CPU/GiB to receive", digits=2),
            Metric("crc", "s CPU/GiB to check", digits=2),
            Metric("write", "s CPU/GiB to write", digits=2),
        ),
        (Target("cpu_per_gib", "<=", 1.3, relative_to=None),),
    ),
)
