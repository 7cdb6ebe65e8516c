"""Search in the console: 800,000 JSON records of 242 bytes in 4 partitions, and its effect on producers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.services.console.scanning.worker.__main__ import NICE
from benchmarks.loads import client, client_command
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows import latency
from benchmarks.rows.security.unchanged import SLOWER
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_RECORDS, _PARTITIONS = 800_000, 4
_ROUNDS, _SECONDS = 5, 2.5
_LABEL = "orders"
_WITHOUT, _WITH = "without a search", "during a search"
_BUSY, _AGAIN = "processes that only count", "processes that only count, again"


def fill(session: Session) -> None:
    broker = session.broker("barnabas")
    topic = session.fresh_topic(broker, _PARTITIONS)
    written = client(
        "console.order_fill", "--port", broker.port, "--topic", topic, "--partitions", _PARTITIONS,
        "--records", session.scaled(_RECORDS),
    )  # fmt: skip
    session.keep(broker, _LABEL, topic)
    session.keep(broker, f"{_LABEL}-count", str(int(written["records"])))


def searching(what: str) -> Subject:
    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        cpu = broker.cpu_seconds()
        found = client(
            "console.search", "--bootstrap", broker.bootstrap, "--topic", session.kept(broker, _LABEL),
            "--what", what, "--records", session.kept(broker, f"{_LABEL}-count"),
        )  # fmt: skip
        return {
            **found,
            "broker_cpu": (broker.cpu_seconds() - cpu) / 6,
        }  # for one search; the cancelled ones add slightly

    return Subject(BARNABAS, measure)


def row(name: str, title: str, what: str, seconds: float) -> Row:
    return Row(
        name,
        title,
        (searching(what),),
        (
            Metric("seconds", "s", 2),
            Metric("first_ms", "ms to the first hit"),
            Metric("cancel_ms", "ms to cancel"),
            Metric("mb", "MB a process"),
            Metric("broker_cpu", "broker's CPU s", 2),
        ),
        (
            Target("seconds", "<=", seconds, relative_to=None),
            Target("first_ms", "<=", 150, relative_to=None),
            Target("cancel_ms", "<=", 200, relative_to=None),
            Target("mb", "<=", 300, relative_to=None),
        ),
        prepare=fill,
        warm_up=False,
    )


def _produce(session: Session) -> Figures:
    return latency.produce_for(session, session.broker("barnabas"), _SECONDS)


def _produce_meanwhile(session: Session) -> Figures:
    with _search_forever(session, session.broker("barnabas")):
        return _produce(session)


def _produce_on_a_busy_machine(session: Session) -> Figures:
    """Produce while as many processes as search, with the same priority, run busy loops: the cost of busy cores."""
    counting = ["nice", "-n", str(NICE), sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(counting) for _ in range(os.cpu_count() or 1)]
    try:
        return _produce(session)
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextmanager
def _search_forever(session: Session, broker: Broker) -> Iterator[None]:
    topic = session.kept(broker, _LABEL)
    command = client_command(
        "console.search", "--bootstrap", broker.bootstrap, "--topic", topic, "--what", "text", "--forever"
    )
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


ROWS = (
    row("console-search-text", "console: text in 800,000 records of 242 B", "text", 0.5),
    row("console-search-cel", "console: CEL over 800,000 records of 242 B", "cel", 0.8),
    Row(
        "console-search-produce",
        "produce latency at 5,000/s while the console searches continuously, compared with processes that only count",
        (
            Subject(_WITHOUT, _produce),
            Subject(_BUSY, _produce_on_a_busy_machine),
            Subject(_WITH, _produce_meanwhile),
            Subject(_AGAIN, _produce_on_a_busy_machine),
        ),
        (latency.P50, latency.P99),
        (Target("p99_us", "<=", SLOWER, relative_to=_BUSY, subject=_WITH, again=_AGAIN),),
        prepare=fill,
        least_rounds=_ROUNDS,
    ),
)
