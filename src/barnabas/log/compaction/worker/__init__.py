"""The worker process: Python work that would hold the loop up, in a process of its own.

`python -m barnabas.log.compaction.worker` reads jobs from its standard input and writes their results to its standard
output.
It runs one job at a time and ends when its input does, so it never outlives the broker that started it.

    messages.py   what goes over the pipes
    process.py    the broker's side: starts the process, starts it again when it died
    serving.py    the process's side: takes jobs, can be told to stop one
    jobs.py       what a job is done with
    log_cleaner.py          compaction: which log is next, and what is done with the result
"""
