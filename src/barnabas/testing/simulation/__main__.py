"""`python -m barnabas.testing.simulation --seeds 1-200 [--seconds 60] [--processes 2]`"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from barnabas.testing.simulation.telling import StoryFailed, tell

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-200")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that much time")
    parser.add_argument("--processes", type=int, help="as many as there are cores, unless given")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    rate = _Rate()
    try:
        told = tell(
            int(first),
            int(last or first),
            processes=asked.processes,
            seconds=asked.seconds,
            progress=rate.tell,
        )
    except StoryFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(
        f"{rate.of(told)}, each {_processor_ms(told):.0f} ms of a processor, and nothing was lost\n"
    )
    return 0


class _Rate:
    def __init__(self) -> None:
        self._began = self._told_at = time.monotonic()

    def of(self, told: int) -> str:
        per_minute = told / (time.monotonic() - self._began) * 60
        return f"{told:,} stories ({per_minute:,.0f} a minute)"

    def tell(self, told: int) -> None:
        if time.monotonic() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            sys.stderr.write(f"{self.of(told)} so far\n")


def _processor_ms(told: int) -> float:
    """For a story, by all processes that have ended: unlike the rate, it says little about who else is busy here."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000 / max(told, 1)


if __name__ == "__main__":
    sys.exit(main())
