"""A topic as a table: typed JSON columns compared with a hand-written poll loop."""

from benchmarks.loads import client
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import RATE
from benchmarks.rows.spark import fill_events
from benchmarks.session import Session

EVENTS, PARTITIONS = 1_000_000, 4
POLL_LOOP = "confluent-kafka, json, DataFrame"
PER_CORE = Metric("per_core", "records/s and core")


def reader(name: str, how: str) -> Subject:
    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        return client(
            "table_reader", "--how", how, "--bootstrap", broker.bootstrap, "--topic", session.kept(broker, "table"),
            "--partitions", PARTITIONS, "--records", session.kept(broker, "table-count"),
        )  # fmt: skip

    return Subject(name, measure)


ROWS = (
    Row(
        "table-json",
        "Table: typed columns of 1 M JSON records, lz4",
        (reader(POLL_LOOP, "poll"), reader(BARNABAS, "table")),
        (RATE, PER_CORE),
        (
            Target("per_core", ">=", 1_200_000, relative_to=None),
            Target("rate", ">=", 10.0, relative_to=POLL_LOOP),
        ),
        prepare=lambda session: fill_events(session, "table", EVENTS, PARTITIONS, "lz4"),
        warm_up=False,
    ),
)
