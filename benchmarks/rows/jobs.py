"""Task queues: durable jobs, published with confirms and acknowledged one by one, compared with RabbitMQ.

RabbitMQ confirms a persistent message when it is on disk or has been consumed. Barnabas always waits for its disk
(`barnabas.acks.all.fsync=auto`, the default), a stricter guarantee; `fsync=never` is an additional subject.
"""

from collections.abc import Callable

from benchmarks.floors import disk_floor
from benchmarks.loads import client
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session
from benchmarks.subjects import rabbitmq
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.rabbitmq import RabbitMq

RABBITMQ, NO_FSYNC = "RabbitMQ", "Barnabas, fsync=never"
_JOBS = 50_000
_RATE, _TIMED_JOBS = 500, 2_500  # a rate at which queues are empty most of the time

_METRICS = (
    Metric("rate", "jobs/s"),
    Metric("cpu", "s CPU", digits=2),
    Metric("p50_ms", "ms p50", digits=1),
    Metric("p99_ms", "ms p99", digits=1),
)
_TARGETS = (
    Target("rate", ">=", 1.0, relative_to=RABBITMQ),
    Target("cpu", "<=", 1.0, relative_to=RABBITMQ),
)

DISK = "the disk alone, fdatasync in groups"


def _disk(session: Session) -> Figures:
    figures = disk_floor.sync_latency(session.scratch, _RATE, session.scaled(_TIMED_JOBS) / _RATE)
    return {"p50_ms": figures["p50_us"] / 1000, "p99_ms": figures["p99_us"] / 1000}


System = Callable[[Session], Broker | RabbitMq]


def _jobs(name: str, system: System, client_of: str, workers: int) -> Subject:
    def measure(session: Session) -> Figures:
        broker = system(session)

        def work(jobs: int, rate: int) -> dict[str, float]:
            return client(
                "queues.jobs",
                *("--system", client_of, "--port", broker.port, "--queue", session.new_name()),
                *("--workers", workers, "--jobs", session.scaled(jobs), "--rate", rate),
            )

        before = broker.cpu_seconds()
        full = work(_JOBS, rate=0)
        cpu = broker.cpu_seconds() - before
        timed = work(_TIMED_JOBS, rate=_RATE)
        return {
            "rate": full["jobs"] / full["seconds"],
            "cpu": cpu,
            "p50_ms": timed["p50_ms"],
            "p99_ms": timed["p99_ms"],
        }

    return Subject(name, measure)


def _row(name: str, title: str, workers: int) -> Row:
    return Row(
        name,
        title,
        (
            _jobs(RABBITMQ, lambda session: session.rabbitmq(), "rabbitmq", workers),
            _jobs(BARNABAS, lambda session: session.broker("barnabas-fsync"), "barnabas", workers),
            _jobs(NO_FSYNC, lambda session: session.broker("barnabas"), "barnabas", workers),
            Subject(DISK, _disk),
        ),
        _METRICS,
        _TARGETS,
        missing=rabbitmq.reason_it_is_missing,
    )


ROWS = (
    _row("jobs", "task queue: durable jobs of 100 B, 1 worker", 1),
    _row("jobs-8", "task queue: durable jobs of 100 B, 8 workers", 8),
)
