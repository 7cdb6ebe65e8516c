"""Cases for one port from a seed, each judged separately by loop time, memory and response."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.driving import Hung
from tests.fuzz.ports.lines import Lines
from tests.fuzz.ports.process import HTTP_PORTS, Case, Cost, Port, open_port
from tests.fuzz.ports.requests import CROWD, Requests

LOOP_SECONDS = 0.020
MEMORY_BYTES = 64 << 20
LOG_LINES = 100
TRIES = 3
CHECKED_EVERY = 10  # cases: is a client of another address served?
_FAILED = re.compile(rb"HTTP/1\.[01] 500 ")


@dataclass(frozen=True)
class Failure:
    """`kind`: loop, memory, error, log, flood, hung."""

    case: Case
    kind: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.told} ({self.case.name!r}, {self.case.size:,} bytes)"


@dataclass
class PortFindings:
    port: str
    cases: int = 0
    answers: int = 0
    slowest: float = 0.0
    largest: int = 0
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)

    def summary(self) -> Iterator[str]:
        yield (
            f"{self.port}: {self.cases:,} cases, {self.answers:,} answers, longest step {self.slowest * 1000:.1f} ms, "
            f"largest growth {self.largest >> 20} MB, {len(self.failures)} failures"
        )
        yield from (f"  FAILURE: {failure}" for failure in self.failures.values())


class PortRun:
    """A case fails if it fails in each of three tries: collections of garbage and timers take time, too."""

    def __init__(self, port: str, seed: int, tell: Callable[[str], None] = lambda text: None) -> None:
        self.findings = PortFindings(port)
        self._source = Random(seed)
        self._print = tell
        self._case = Case("nothing yet", [])

    def run(self, cases: int, seconds: float = float("inf")) -> PortFindings:
        """Run at least a few cases, even on a slow machine."""
        _allow_many_files()
        deadline = time.monotonic() + seconds
        while self.findings.cases < cases and (
            time.monotonic() < deadline or self.findings.cases < CHECKED_EVERY
        ):
            with open_port(self.findings.port) as port:
                self._run_on(port, cases, deadline)
        return self.findings

    def _run_on(self, port: Port, cases: int, deadline: float) -> None:
        """Until the end, or until the program hangs: then it is started again."""
        http = port.name in HTTP_PORTS
        requests = Requests(port.name, self._source, port.authorization) if http else None
        lines = Lines(port.name, self._source)
        try:
            port.check_service()
            if requests is not None and not self.findings.cases:
                self._try(port, requests.crowd())
            while self.findings.cases < cases and (
                time.monotonic() < deadline or self.findings.cases < CHECKED_EVERY
            ):
                self._try(port, requests.case() if requests is not None else lines.case())
                if self.findings.cases % CHECKED_EVERY == 0:
                    port.check_service()
        except Hung as hung:
            self._report(Failure(self._case, "hung", str(hung)))

    def _try(self, port: Port, case: Case) -> None:
        self.findings.cases += 1
        self._case = case
        found = self.judged(port, case)
        for _ in range(TRIES - 1):
            if not found:
                return
            again = {failure.kind for failure in self.judged(port, case)}
            found = [failure for failure in found if failure.kind in again]
        for failure in found:
            self._report(failure)

    def judged(self, port: Port, case: Case) -> list[Failure]:
        port.reset()
        answers = port.send(case)
        cost = port.cost()
        self.findings.answers += sum(map(bool, answers))
        self.findings.largest = max(self.findings.largest, cost.peak)
        found = list(_beyond(case, cost))
        if not any(failure.kind == "loop" for failure in found):
            self.findings.slowest = max(self.findings.slowest, cost.seconds)
        found += [Failure(case, "error", repr(answer[:60])) for answer in answers if _FAILED.match(answer)]
        return found

    def _report(self, failure: Failure) -> None:
        key = (failure.kind, failure.case.name)
        if key not in self.findings.failures:
            self._print(f"FAILURE: {failure}")
        self.findings.failures.setdefault(key, failure)


def _beyond(case: Case, cost: Cost) -> Iterator[Failure]:
    if cost.seconds > LOOP_SECONDS:
        yield Failure(case, "loop", f"a step took {cost.seconds * 1000:,.0f} ms: {cost.where}")
    if cost.peak > MEMORY_BYTES + case.size:
        yield Failure(case, "memory", f"{cost.peak >> 20:,} MB")
    if cost.lines > LOG_LINES:
        yield Failure(case, "flood", f"{cost.lines:,} lines of the log")
    for complaint in cost.complaints[:1]:
        yield Failure(case, "log", complaint)


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
