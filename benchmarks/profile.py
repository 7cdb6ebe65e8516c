"""Profiles Barnabas in a row of the table, for figures that miss their target.

    python -m benchmarks.profile produce-unbatched [--top 30]

Runs the row's load once, on Barnabas alone, under cProfile, and prints the functions with the highest own time.
cProfile slows down every Python call: trust the order, not the seconds.
"""

import argparse
import pstats
import tempfile
from pathlib import Path

from benchmarks import rows
from benchmarks.model import BARNABAS, Row
from benchmarks.session import Session


def profile(row: Row, scratch: Path, top: int) -> None:
    stats_file = scratch / "stats"
    subject = next(subject for subject in row.subjects if subject.name == BARNABAS)
    with Session(scratch, profile_to=stats_file) as session:
        row.prepare(session)
        figures = subject.measure(session)
    print(f"{row.title}: {dict(figures)}")
    pstats.Stats(str(stats_file)).strip_dirs().sort_stats("tottime").print_stats(top)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("row")
    parser.add_argument("--top", type=int, default=30, help="how many functions to show")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows.select([options.row]):
            profile(row, Path(scratch), options.top)


if __name__ == "__main__":
    main()
