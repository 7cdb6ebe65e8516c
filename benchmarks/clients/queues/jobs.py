"""Task queue benchmark: one process publishes jobs, workers receive them one by one and acknowledge each.

    python -m benchmarks.clients.queues.jobs --system barnabas --port P --queue Q --workers 8 --jobs 20000 [--rate 1000]

Both systems have the same setup: number of processes, durable and confirmed jobs of 100 bytes, at most `WINDOW`
unconfirmed jobs, at most `PREFETCH` jobs per worker. Without a rate, jobs are published as fast as they are confirmed.
The latency of a job is the time from its publication until its worker has acknowledged it.
"""

import argparse
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Protocol

from benchmarks.clients.percentiles import percentile
from benchmarks.clients.queues import jobs_rabbitmq, jobs_share
from benchmarks.clients.queues.job_queue import Jobs, Queue, Times

_TIMEOUT_SECONDS = 240.0
_WARM_UP_SHARE = 5  # the first fifth of the jobs is excluded from the percentiles
_processes = multiprocessing.get_context("spawn")  # neither client survives a fork


class System(Protocol):
    """One of the two systems, with its standard Python client."""

    def create(self, queue: Queue) -> None: ...
    def publish(self, queue: Queue, jobs: Jobs) -> None: ...
    def work(self, queue: Queue, pipe: Connection) -> None: ...


SYSTEMS: dict[str, System] = {"barnabas": jobs_share, "rabbitmq": jobs_rabbitmq}


class Workers:
    """Processes that report readiness, then the publication and acknowledgement time of each job."""

    def __init__(self, system: System, queue: Queue, count: int) -> None:
        self._ours: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for _ in range(count):
            child_pipe, child = _processes.Pipe(duplex=False)
            process = _processes.Process(target=system.work, args=(queue, child), daemon=True)
            process.start()
            child.close()
            self._ours.append(child_pipe)
            self._processes.append(process)

    def wait_until_ready(self) -> None:
        for connection in self._ours:
            if not connection.poll(_TIMEOUT_SECONDS):
                raise RuntimeError("a worker did not begin")
            connection.recv()

    def times(self, jobs: int) -> list[Times]:
        """Times of all jobs, in order, once all are done. A redelivered job counts once."""
        taken: dict[int, Times] = {}
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while len(taken) < jobs:
            heard = wait_for_any(self._ours, max(0.0, deadline - time.monotonic()))
            if not heard:
                raise RuntimeError(f"only {len(taken)} of {jobs} jobs were done")
            for connection in heard:
                assert isinstance(connection, Connection)
                taken.update((times.job, times) for times in connection.recv())
        return [taken[job] for job in range(jobs)]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def measure(system_name: str, queue: Queue, workers: int, jobs: Jobs) -> dict[str, float]:
    system = SYSTEMS[system_name]
    system.create(queue)
    crew = Workers(system, queue, workers)
    try:
        crew.wait_until_ready()
        publisher = _processes.Process(target=system.publish, args=(queue, jobs), daemon=True)
        publisher.start()
        taken = crew.times(jobs.number)
        publisher.join()
    finally:
        crew.end()
    return summary(taken)


def summary(taken: list[Times]) -> dict[str, float]:
    """Rate from the first publication to the last acknowledgement, and latency percentiles."""
    first, last = taken[0].published, max(times.acknowledged for times in taken)
    settled = taken[len(taken) // _WARM_UP_SHARE :]  # excludes connecting and the first fetch
    seconds = [(times.acknowledged - times.published) / 1e9 for times in settled]
    return {
        "jobs": len(taken),
        "seconds": (last - first) / 1e9,
        "p50_ms": percentile(seconds, 0.50) * 1000,
        "p99_ms": percentile(seconds, 0.99) * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--rate", type=int, default=0, help="jobs a second; 0 for as many as possible")
    options = parser.parse_args()
    queue, jobs = Queue(options.port, options.queue), Jobs(options.jobs, options.rate)
    print(json.dumps(measure(options.system, queue, options.workers, jobs)))


if __name__ == "__main__":
    main()
