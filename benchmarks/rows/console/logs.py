"""Log search of the console compared with grep, which computes neither histogram nor facets."""

import os
import resource
import subprocess
import time
from pathlib import Path

from benchmarks.clients.console.log_search import PATTERN, ROUNDS, WORD
from benchmarks.loads import client
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.session import Session

LINES = 10_000_000
GREP = "GNU grep -ci, a plain file"


def _folder(session: Session) -> Path:
    return session.scratch / "log-search"


def fill(session: Session) -> None:
    _folder(session).mkdir()
    client("console.log_search", "--fill", _folder(session), "--lines", session.scaled(LINES))


def by_console(session: Session) -> Figures:
    return client("console.log_search", "--search", _folder(session))


def by_grep(session: Session) -> Figures:
    plain = _folder(session) / "plain.log"
    _grep(plain, "-ci", WORD)  # warm-up, as for the console
    figures: dict[str, float] = {}
    for name, arguments in (("word", ("-ci", WORD)), ("pattern", ("-ciP", PATTERN))):
        before, begin = _cpu_of_children(), time.perf_counter()
        for _ in range(ROUNDS):
            _grep(plain, *arguments)
        figures[name] = (time.perf_counter() - begin) / ROUNDS
        figures[f"{name}_cpu"] = (_cpu_of_children() - before) / ROUNDS
    return figures


def _grep(plain: Path, *arguments: str) -> None:
    """Count matches: with output to /dev/null, grep would stop at the first one."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(["grep", *arguments, str(plain)], capture_output=True, check=True, env=environment)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


ROWS = (
    Row(
        "console-logs",
        "console: 10 M log lines searched, histogram and facets included",
        (Subject(GREP, by_grep), Subject(BARNABAS, by_console)),
        (
            Metric("word", "s, a word", digits=2),
            Metric("pattern", "s, a pattern", digits=2),
            Metric("word_cpu", "s CPU, a word", digits=2),
            Metric("pattern_cpu", "s CPU, a pattern", digits=2),
        ),
        (
            Target("word", "<=", 1.0, relative_to=None),
            Target("pattern", "<=", 1.0, relative_to=None),
        ),
        prepare=fill,
        warm_up=False,
    ),
)
