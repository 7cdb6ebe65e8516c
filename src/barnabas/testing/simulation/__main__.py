"""`python -m barnabas.testing.simulation --seeds 1-200 [--seconds 60]`"""

from __future__ import annotations

import argparse
import sys
import time

from barnabas.testing.simulation.scenario import Story, StoryFailed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-200")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that much time")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    end, told = time.monotonic() + asked.seconds, 0
    for seed in range(int(first), int(last or first) + 1):
        if time.monotonic() > end:
            break
        try:
            Story(seed).run()
        except StoryFailed as failure:
            sys.stderr.write(f"{failure}\n")
            return 1
        told += 1
    sys.stdout.write(f"{told} stories, and nothing was lost\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
