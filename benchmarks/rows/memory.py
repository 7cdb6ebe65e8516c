"""Resident memory of the brokers of this run: right after their start, and at the end."""

from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import both
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_MB = 1_000_000


def resident(session: Session, broker: Broker) -> Figures:
    return {"idle": broker.idle_bytes / _MB, "after": broker.resident_bytes() / _MB}


ROWS = (
    Row(
        "memory",
        "resident memory",
        both(resident),
        (Metric("idle", "MB idle"), Metric("after", "MB after the run")),
        (Target("idle", "<=", 60, relative_to=None), Target("after", "<=", 120, relative_to=None)),
        warm_up=False,
        once=True,
    ),
)
