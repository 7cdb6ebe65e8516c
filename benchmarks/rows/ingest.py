"""Lines of a file shipped into a topic: our agent (exactly once), compared with Flume and rsyslog (at least once)."""

from pathlib import Path

from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects import shippers
from benchmarks.subjects.shippers import Shipper

LINES = 1_000_000
FLUME, RSYSLOG = "Apache Flume, taildir", "rsyslog, imfile and omkafka"


def fill_log(session: Session) -> None:
    """Write an application log with lines of about 90 bytes."""
    with _log(session).open("w") as file:
        for number in range(session.scaled(LINES)):
            timestamp = f"12:{number // 60_000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000:03d}"
            user, took = number * 7919 % 1000, number * 104_729 % 900
            file.write(
                f"2026-11-17T{timestamp}Z INFO [main] request {number} of user{user} served in {took} ms status=200\n"
            )


def _log(session: Session) -> Path:
    return session.scratch / "app.log"


def _subject(name: str, ship: Shipper) -> Subject:
    def measure(session: Session) -> Figures:
        broker, lines = session.broker("barnabas"), session.scaled(LINES)
        topic = session.fresh_topic(broker, 1)
        folder = session.scratch / f"ship-{topic}"
        folder.mkdir()
        shipped = ship(folder, _log(session), broker.bootstrap, topic, lines)
        session.delete_topic(broker, topic)
        return {
            "rate": lines / shipped.seconds,
            "cpu_line": shipped.cpu / lines * 1e6,
            "memory": shipped.peak_bytes / 1e6,
        }

    return Subject(name, measure)


def _missing() -> str | None:
    return shippers.flume_is_missing() or shippers.rsyslog_is_missing()


ROWS = (
    Row(
        "ingest-files",
        "ingest files: 1 M lines of a file, start included",
        (
            _subject(FLUME, shippers.flume),
            _subject(RSYSLOG, shippers.rsyslog),
            _subject(BARNABAS, shippers.barnabas_agent),
        ),
        (
            Metric("rate", "lines/s"),
            Metric("cpu_line", "us CPU/line", digits=2),
            Metric("memory", "MB peak"),
        ),
        (
            Target("rate", ">=", 3.0, relative_to=FLUME),
            Target("cpu_line", "<=", 1 / 3, relative_to=FLUME),
            Target("cpu_line", "<=", 3.0, relative_to=RSYSLOG),
            Target("memory", "<=", 80, relative_to=None),
        ),
        prepare=fill_log,
        missing=_missing,
        warm_up=False,
    ),
)
