"""Worker process for compaction, which would block the broker's event loop.

`python -m barnabas.log.compaction.worker` reads jobs from standard input and writes their results to standard output.
It runs one job at a time and exits at the end of its input, so it never outlives the broker that started it.

    messages.py                 messages on the pipes
    serving.py                  the worker's side: runs jobs with a rate limit, can cancel the current one
    broker/worker_process.py    the broker's side: starts the process, restarts it after a crash
    broker/log_cleaner.py       selects the next log, and swaps in the result
"""
