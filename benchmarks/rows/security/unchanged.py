"""Rows for features without expected cost: produce latency with the feature, between two runs without it (A/B/A).

Both brokers are new and equally loaded. Apache Kafka with the same settings is an additional subject.
"""

from collections.abc import Callable

from benchmarks.model import KAFKA, Figures, Row, Target
from benchmarks.rows import latency
from benchmarks.rows.common import subject
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

SLOWER = 1.1
_ROUNDS = 5
_SECONDS = 2.5  # 12,500 samples per round
_BARE = "barnabas-bare"


def produce(session: Session, broker: Broker) -> Figures:
    return latency.produce_for(session, broker, _SECONDS)


def unchanged_latency(name: str, kind: str, what: str, prepare: Callable[[Session, Broker], None]) -> Row:
    """`kind` names the broker settings, `what` describes the feature, and `prepare` sets it up."""
    without, again = f"no {kind}", f"no {kind}, again"
    barnabas_key, kafka_key = f"barnabas-{kind}", f"kafka-{kind}"

    def prepare_both(session: Session) -> None:
        for key in (barnabas_key, kafka_key):
            prepare(session, session.broker(key))

    return Row(
        name,
        f"produce latency at 5,000/s with {what}, compared with none",
        (
            subject(without, _BARE, produce),
            subject(what, barnabas_key, produce),
            subject(again, _BARE, produce),
            subject(f"{KAFKA}, {what}", kafka_key, produce),
        ),
        (latency.P50, latency.P99),
        (Target("p99_us", "<=", SLOWER, relative_to=without, subject=what, again=again),),
        prepare=prepare_both,
        least_rounds=_ROUNDS,
    )
