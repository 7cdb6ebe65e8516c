"""A clean end of all logs of a log dir."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.dirs.properties import write_clean_shutdown
from barnabas.log.flushing import FlushJob
from barnabas.log.log import Log


def close_dir(log_dir: LogDir, logs: list[Log], threads: int, broker_epoch: int) -> None:
    """Write and sync everything, then mark the dir clean. Nothing may be appended any more."""
    jobs = [log.prepare_close() for log in logs]
    _run_all(jobs, threads)
    for log, job in zip(logs, jobs, strict=True):
        log.complete_flush(job)
    log_dir.checkpoint(logs).run()
    if log_dir.disk.error is None:
        write_clean_shutdown(log_dir.fs, log_dir.folder, broker_epoch)


def _run_all(jobs: Iterable[FlushJob], threads: int) -> None:
    """A job with nothing to write needs no thread, and neither does one alone."""
    busy = [job for job in jobs if job.files or job.paths or job.folders]
    if len(busy) == 1 or threads == 1:
        for job in busy:
            job.run()
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(FlushJob.run, busy))
