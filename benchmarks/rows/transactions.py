"""Small consecutive transactions: cost of the coordinator and the markers."""

from benchmarks.loads import client, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, both_and_with_fsync
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_TRANSACTIONS = 800


def transactions(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, 1)
    figures = with_cpu(broker, lambda: _run(broker, topic, session.scaled(_TRANSACTIONS)))
    session.delete_topic(broker, topic)
    return figures


def _run(broker: Broker, topic: str, count: int) -> float:
    """Transactions per second."""
    options = ("--bootstrap", broker.bootstrap, "--topic", topic, "--transactions", count)
    figures = client("transactions", *options)
    return figures["transactions"] / figures["seconds"]


ROWS = (
    Row(
        "transactions",
        "transactions of 5 records, one producer",
        both_and_with_fsync(transactions),
        (Metric("rate", "transactions/s"), CPU),
        (Target("rate", ">=", 1.0), COORDINATION_CPU_TARGET),
    ),
)
