"""`python -m simulation --seeds 1-200 [--seconds 60] [--processes 2] [--tiered]`"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from simulation.runner import ScenarioFailed, run

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-200")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that much time")
    parser.add_argument("--processes", type=int, help="as many as there are cores, unless given")
    parser.add_argument("--tiered", action="store_true", help="with segments in an object store")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    rate = _Rate()
    try:
        done = run(
            int(first),
            int(last or first),
            tiered=asked.tiered,
            processes=asked.processes,
            seconds=asked.seconds,
            progress=rate.report,
        )
    except ScenarioFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(
        f"{rate.of(done)}, each {_processor_ms(done):.0f} ms of a processor, and nothing was lost\n"
    )
    return 0


class _Rate:
    def __init__(self) -> None:
        self._began = self._reported_at = time.monotonic()

    def of(self, done: int) -> str:
        per_minute = done / (time.monotonic() - self._began) * 60
        return f"{done:,} scenarios ({per_minute:,.0f} a minute)"

    def report(self, done: int) -> None:
        if time.monotonic() - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = time.monotonic()
            sys.stderr.write(f"{self.of(done)} so far\n")


def _processor_ms(done: int) -> float:
    """For a scenario, by all processes that have ended: unlike the rate, it depends little on what else runs here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000 / max(done, 1)


if __name__ == "__main__":
    sys.exit(main())
