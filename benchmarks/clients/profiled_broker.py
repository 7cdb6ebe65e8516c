"""`barnabas` under cProfile: python -m benchmarks.clients.profiled_broker STATS_FILE serve --data ...

It is in this folder because it is run as a separate process, like the load generators. The statistics are written on
exit.
"""

import cProfile
import sys

from barnabas.cli.main import main as barnabas


def main() -> None:
    stats_file = sys.argv.pop(1)
    profile = cProfile.Profile()
    try:
        profile.runcall(barnabas)
    finally:
        profile.dump_stats(stats_file)


if __name__ == "__main__":
    main()
