"""`python -m barnabas.testing.simulation --seeds 1-200 [--seconds 60] [--processes 2]`"""

from __future__ import annotations

import argparse
import sys
import time

from barnabas.testing.simulation.telling import StoryFailed, tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-200")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that much time")
    parser.add_argument("--processes", type=int, help="as many as there are cores, unless given")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    began = time.monotonic()
    try:
        told = tell(int(first), int(last or first), processes=asked.processes, seconds=asked.seconds)
    except StoryFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    rate = told / (time.monotonic() - began) * 60
    sys.stdout.write(f"{told} stories, and nothing was lost ({rate:,.0f} a minute)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
