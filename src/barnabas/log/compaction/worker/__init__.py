"""Worker process for compaction, which would block the broker's event loop.

`python -m barnabas.log.compaction.worker` reads jobs from standard input and writes their results to standard output.
It runs one job at a time and exits at the end of its input, so it never outlives the broker that started it.

    messages.py                 messages on the pipes
    serving.py                  the worker's side: runs jobs with a rate limit, can cancel the current one
    broker/worker_process.py    the broker's side: starts the process, restarts it after a crash
    broker/log_cleaner.py       selects the next log, and swaps in the result
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.compaction.worker.messages import Answer as Answer
    from barnabas.log.compaction.worker.messages import CancelJob as CancelJob
    from barnabas.log.compaction.worker.messages import Cancelled as Cancelled
    from barnabas.log.compaction.worker.messages import Failed as Failed
    from barnabas.log.compaction.worker.messages import Job as Job
    from barnabas.log.compaction.worker.messages import JobDone as JobDone
    from barnabas.log.compaction.worker.messages import JobProgress as JobProgress
    from barnabas.log.compaction.worker.messages import Part as Part
    from barnabas.log.compaction.worker.messages import Result as Result
    from barnabas.log.compaction.worker.messages import RunJob as RunJob
    from barnabas.log.compaction.worker.messages import decode_answer as decode_answer
    from barnabas.log.compaction.worker.messages import encode as encode
else:
    __getattr__ = lazy_exports(__name__)
