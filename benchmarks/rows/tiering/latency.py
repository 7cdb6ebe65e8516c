"""Produce latency while history is copied at 50 MB/s, between two runs without (A/B/A).

The store is a process on the same cores, so B is also compared with C: the same bytes uploaded to the same store by
another process. The difference is the cost of copying in the broker.
"""

from benchmarks.loads import fill_log
from benchmarks.model import Figures, Metric, Row, Subject, Target
from benchmarks.rows.latency import P50, P99, produce_for
from benchmarks.rows.tiering.tiered import NOT_TIERED, TIERED, tiered_end, until, uploading
from benchmarks.session import Session
from benchmarks.subjects.object_store import missing

_BROKER = "barnabas-tiers-paced"
_PACE = 50_000_000  # bytes per second: the default of remote.log.manager.copy.max.bytes.per.second
_SECONDS, _ROUNDS = 4.0, 5
_SPARE = 3.0  # time for the load's client to start and warm up
_SEGMENT = 25_000_000
SLOWER = 1.1
NOT_COPYING, COPYING, AGAIN = "not copying", "copying", "not copying, again"
OTHER, OTHER_AGAIN = "another process uploads", "another process uploads, again"
COPIED = Metric("copied_mb", "MB copied meanwhile")


def produce(session: Session) -> Figures:
    return produce_for(session, session.broker(_BROKER), _SECONDS)


def produce_while_another_uploads(session: Session) -> Figures:
    session.broker(_BROKER)
    with uploading(session, _SEGMENT, _PACE):
        return produce(session)


def produce_while_copying(session: Session) -> Figures:
    broker = session.broker(_BROKER)
    size = int(_PACE * (_SECONDS + _SPARE))
    topic = session.fresh_topic(broker, 1, {**NOT_TIERED, "segment.bytes": str(_SEGMENT)})
    records = fill_log(broker, topic, size)
    session.settle()
    session.alter_topic(broker, topic, TIERED)
    until(lambda: tiered_end(broker.bootstrap, topic) > 0, "copying begins")
    before = tiered_end(broker.bootstrap, topic)
    figures = produce_for(session, broker, _SECONDS)
    copied = (tiered_end(broker.bootstrap, topic) - before) / records * size
    session.delete_topic(broker, topic)
    return {**figures, "copied_mb": copied / 1e6}


ROWS = (
    Row(
        "tier-latency",
        "produce latency at 5,000/s while history is copied at 50 MB/s, compared with no copying",
        (
            Subject(NOT_COPYING, produce),
            Subject(OTHER, produce_while_another_uploads),
            Subject(COPYING, produce_while_copying),
            Subject(OTHER_AGAIN, produce_while_another_uploads),
            Subject(AGAIN, produce),
        ),
        (P50, P99, COPIED),
        (
            Target("p99_us", "<=", SLOWER, relative_to=NOT_COPYING, subject=COPYING, again=AGAIN),
            Target("p99_us", "<=", SLOWER, relative_to=OTHER, subject=COPYING, again=OTHER_AGAIN),
        ),
        missing=missing,
        least_rounds=_ROUNDS,
    ),
)
