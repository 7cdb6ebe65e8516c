"""Source and sink on 1, 2 and 4 executors of a Spark cluster, each limited to a fifth of a core: rows per CPU second.

Both formats are measured in turn in one session; the topic has 12 partitions of events of 100 bytes.
"""

import json
import os
from collections.abc import Callable

from benchmarks.clients.spark.cpu_quota import IS_UNIFIED, ROOT
from benchmarks.loads import client
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.spark import fill_events
from benchmarks.session import Session
from benchmarks.subjects.spark import CONNECTOR, OURS, THEIRS

RECORDS, PARTITIONS = 500_000, 12
LABEL = "executor-events"
METRICS = (
    Metric("read_cpu", "rows read per CPU s"),
    Metric("write_cpu", "rows written per CPU s"),
    Metric("sink_cpu", "rows written per CPU s, without their generation"),
    Metric("read_rate", "rows/s read"),
    Metric("write_rate", "rows/s written"),
)


def prepare(session: Session) -> None:
    fill_events(session, LABEL, RECORDS, PARTITIONS)


def missing() -> str | None:
    folder = ROOT if IS_UNIFIED else ROOT / "cpu"
    return None if os.access(folder, os.W_OK) else f"{folder} is not writable: no CPU quota"


def on_executors(number: int, source: str) -> Callable[[Session], Figures]:
    """Both formats are measured by one program: the first of the row's subjects runs it."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        if source == THEIRS:
            session.keep(broker, f"executors-{number}", json.dumps(_measured(session, number)))
        figures: Figures = json.loads(session.kept(broker, f"executors-{number}"))[source]
        return figures

    return measure


def _measured(session: Session, number: int) -> object:
    broker = session.broker("barnabas")
    return client(
        "spark.executors", "--executors", number,
        "--bootstrap", broker.bootstrap, "--topic", session.kept(broker, LABEL),
        "--target", session.fresh_topic(broker, PARTITIONS),
        "--records", session.kept(broker, f"{LABEL}-count"),
    )  # fmt: skip


def row(number: int) -> Row:
    return Row(
        f"spark-executors-{number}",
        f"Spark cluster: {number} executor{'s' if number > 1 else ''} with 0.2 cores each",
        (Subject(CONNECTOR, on_executors(number, THEIRS)), Subject(BARNABAS, on_executors(number, OURS))),
        METRICS,
        tuple(Target(each, ">=", 2.5, relative_to=CONNECTOR) for each in ("read_cpu", "sink_cpu")),
        prepare=prepare,
        missing=missing,
        warm_up=False,
        once=True,
    )


ROWS = tuple(row(number) for number in (1, 2, 4))
