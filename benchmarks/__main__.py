"""The command line of the benchmark; see `python -m benchmarks --help`."""

import argparse
import compileall
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

import barnabas
from benchmarks import machine, report, rows
from benchmarks.runner import RowResult, measure_rows
from benchmarks.session import Session
from tests.support.kafka.jars import KAFKA_VERSION, reason_java_is_missing

HERE = Path(__file__).parent
_QUICK_SCALE, _QUICK_ROUNDS, _ROUNDS = 0.2, 1, 3


def main() -> int:
    options = _parse()
    console = Console()
    if options.list:
        console.print("\n".join(f"{row.name:22} {row.title}" for row in rows.ALL_ROWS))
        return 0
    _refuse_if_impossible(options.force)
    begin = time.monotonic()
    results = _run(options, console)
    about = _about(options, time.monotonic() - begin)
    saved = report.save(results, about, options.results)  # first: a printing error must not lose the results
    report.print_table(results, console)
    console.print(f"saved: {saved}")
    return 1 if any(line.verdict not in report.GOOD for line in report.lines(results)) else 0


def _run(options: argparse.Namespace, console: Console) -> list[RowResult]:
    options.scratch.mkdir(parents=True, exist_ok=True)
    # As installed by pip: without bytecode, every start would compile all imports.
    compileall.compile_dir(Path(barnabas.__file__).parent, quiet=1)
    scale = _QUICK_SCALE if options.quick else 1.0
    chosen = rows.select(options.rows)
    results: list[RowResult] = []
    with Session(options.scratch, scale) as session:
        try:
            results.extend(measure_rows(chosen, session, _rounds(options), _progress(console)))
        except KeyboardInterrupt:
            console.print(f"interrupted: {len(results)} rows of {len(chosen)} are kept")
        finally:
            if not options.keep:
                shutil.rmtree(session.scratch, ignore_errors=True)
    return results


def _progress(console: Console) -> Callable[[str], None]:
    begin = time.monotonic()

    def show(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - begin:6.0f} s[/dim]  {text}", soft_wrap=True)

    return show


def _rounds(options: argparse.Namespace) -> int:
    rounds: int = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    return rounds


def _refuse_if_impossible(force: bool) -> None:
    reason = reason_java_is_missing()
    if reason is not None:
        raise SystemExit(f"cannot compare with Apache Kafka: {reason}")
    busy = machine.busy_share()
    if busy > machine.BUSY_LIMIT and not force:
        raise SystemExit(f"the machine is {busy:.0%} busy, results would be unreliable (--force to continue)")


def _about(options: argparse.Namespace, seconds: float) -> dict[str, str]:
    return {
        **machine.describe(),
        "barnabas": f"commit {_commit()}",
        "apache kafka": f"{KAFKA_VERSION}, 1 GB heap, warmed up by one unmeasured run of each row",
        "rounds": f"{_rounds(options)}{' (quick)' if options.quick else ''}",
        "duration": f"{seconds / 60:.1f} minutes",
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--rows", nargs="*", default=[], metavar="NAME", help="rows whose name begins with NAME"
    )
    parser.add_argument("--rounds", type=int, help=f"measured rounds (default {_ROUNDS})")
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of the work, one round: to try the harness"
    )
    parser.add_argument("--force", action="store_true", help="continue although the machine is busy")
    parser.add_argument("--list", action="store_true", help="show the rows and stop")
    parser.add_argument("--keep", action="store_true", help="keep the brokers' folders")
    parser.add_argument(
        "--scratch", type=Path, default=HERE / "scratch", help="where the brokers' folders go"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where the results are saved")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
