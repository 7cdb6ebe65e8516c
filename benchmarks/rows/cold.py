"""Produce latency while a consumer reads a long log that is not in the page cache."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.loads import client, client_command, fill_log
from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Row, Target
from benchmarks.rows.common import MeasureBroker, subject
from benchmarks.rows.latency import P50, P99, seconds
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker
from tests.support.programs import PROJECT_ROOT

_LOG_BYTES = 4 << 30
WITH_HOT_LOG = "Barnabas, hot log"


def write_long_logs(session: Session) -> None:
    for key in ("kafka", "barnabas"):
        broker = session.broker(key)
        topic = session.fresh_topic(broker, 1)
        fill_log(broker, topic, session.scaled(_LOG_BYTES))
        session.keep(broker, "long", topic)


def produce_beside_reader(cold: bool) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        target = session.fresh_topic(broker, 1)
        options = ("--rate", 5000, "--seconds", seconds(session))
        with reader(session, broker, cold) as read:
            latency = client("produce_latency", "--bootstrap", broker.bootstrap, "--topic", target, *options)
        return {**latency, **read}

    return measure


@contextmanager
def reader(session: Session, broker: Broker, cold: bool) -> Iterator[dict[str, float]]:
    """Read the long log repeatedly in another process while the body runs; figures are available after the block."""
    topic = session.kept(broker, "long")
    command = client_command("reader", "--bootstrap", broker.bootstrap, "--topic", topic)
    command += ["--log-dir", str(broker.partition_dir(topic, 0)), *(["--cold"] if cold else [])]
    process = subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # "reading"
    figures: dict[str, float] = {}
    try:
        yield figures
    finally:
        output, _ = process.communicate(timeout=60)  # closes its input, which ends it
    figures.update(json.loads(output))


ROWS = (
    Row(
        "cold-reader",
        "produce latency at 5,000/s during a read of a cold 4 GB log",
        (
            subject(KAFKA, "kafka", produce_beside_reader(cold=True)),
            subject(BARNABAS, "barnabas", produce_beside_reader(cold=True)),
            subject(WITH_HOT_LOG, "barnabas", produce_beside_reader(cold=False)),
        ),
        (P50, P99, Metric("mb_per_second", "MB/s read")),
        (Target("p99_us", "<=", 1.0), Target("p99_us", "<=", 3.0, relative_to=WITH_HOT_LOG)),
        prepare=write_long_logs,
    ),
)
