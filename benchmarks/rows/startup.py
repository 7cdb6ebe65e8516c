"""From starting the process, with an empty and prepared folder, to its first answer."""

from benchmarks.model import BARNABAS, KAFKA, Figures, Measure, Metric, Row, Subject, Target
from benchmarks.session import Session


def first_answer(key: str) -> Measure:
    def measure(session: Session) -> Figures:
        broker = session.new_broker(key)
        broker.prepare()
        try:
            return {"seconds": broker.launch_and_wait()}
        finally:
            broker.stop()

    return measure


ROWS = (
    Row(
        "start",
        "start to first ApiVersions answer",
        (Subject(KAFKA, first_answer("kafka")), Subject(BARNABAS, first_answer("barnabas"))),
        (Metric("seconds", "s", digits=2),),
        (Target("seconds", "<=", 0.25), Target("seconds", "<=", 0.5, relative_to=None)),
        warm_up=False,
    ),
)
