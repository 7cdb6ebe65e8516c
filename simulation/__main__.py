"""`python -m simulation --seeds 1-200 [--seconds 60] [--processes 2] [--tiered] [--mirrors] [--keep-going]`

With more than one of `--plain`, `--tiered` and `--mirrors` each of them is run, one after the other."""

from __future__ import annotations

import argparse
import resource
import sys
import time

from simulation.runner import ScenarioFailed, ScenarioKind, run

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-200")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that much time")
    parser.add_argument("--processes", type=int, help="as many as there are cores, unless given")
    parser.add_argument("--plain", action="store_true", help="without tiers and mirrors: the default")
    parser.add_argument("--tiered", action="store_true", help="with segments in an object store")
    parser.add_argument("--mirrors", action="store_true", help="with a mirror; every second one is promoted")
    parser.add_argument(
        "--keep-going", action="store_true", help="run all scenarios, and list those that failed"
    )
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    kinds = [each for each in ScenarioKind if getattr(options, each.value)] or [ScenarioKind.PLAIN]
    return max(_run_all(kind, int(first), int(last or first), options) for kind in kinds)


def _run_all(kind: ScenarioKind, first: int, last: int, options: argparse.Namespace) -> int:
    """Run the scenarios of one kind and return the exit status: 1 if any failed."""
    rate, failed = _Rate(), list[int]()

    def report(failure: ScenarioFailed) -> None:
        failed.append(failure.seed)
        sys.stderr.write(f"{kind.value} {failure}\n")

    try:
        done = run(
            first,
            last,
            kind,
            processes=options.processes,
            seconds=options.seconds,
            progress=rate.report,
            on_failure=report if options.keep_going else None,
        )
    except ScenarioFailed as failure:
        report(failure)
        return 1
    outcome = f"{len(failed)} failed: {failed}" if failed else "nothing was lost"
    sys.stdout.write(
        f"{kind.value}: {rate.of(done)}, each {rate.processor_ms(done):.0f} ms of a processor, and {outcome}\n"
    )
    sys.stdout.flush()
    return bool(failed)


class _Rate:
    def __init__(self) -> None:
        self._began = self._reported_at = time.monotonic()
        self._used_before = _processor_seconds()

    def of(self, done: int) -> str:
        per_minute = done / (time.monotonic() - self._began) * 60
        return f"{done:,} scenarios ({per_minute:,.0f} a minute)"

    def processor_ms(self, done: int) -> float:
        """CPU time per scenario: unlike the rate, nearly independent of other load on the machine."""
        return (_processor_seconds() - self._used_before) * 1000 / max(done, 1)

    def report(self, done: int) -> None:
        if time.monotonic() - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = time.monotonic()
            sys.stderr.write(f"{self.of(done)} so far\n")


def _processor_seconds() -> float:
    """CPU time of all terminated child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
