"""Machine instructions that a broker executes for one exchange, counted by callgrind.

    python -m benchmarks.callgrind [--loads 6-partitions long-poll] [--exchanges 500] [--source OTHER/src]

They see what the count of bytecode (instructions.py) does not: the cost of each bytecode and of calls into C, without
the kernel. An idle broker executes instructions, too; as many as it does in a second are subtracted for each second of
a load, which takes some fifty times as long under callgrind, and longer on a busy machine.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import NewTopic

from benchmarks.session import NO_FSYNC, admin_client
from benchmarks.small_loads import SMALL_LOADS, SmallLoad
from benchmarks.subjects.brokers import BarnabasProcess, Broker

_WARM_UP = 100
_IDLE_SECONDS = 10
_START_SECONDS = 600
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
# Timers of the broker are not slowed down: a write or a request must not count as late.
_SETTINGS = {**NO_FSYNC, "barnabas.log.dir.slow.write.ms": "0", "barnabas.slow.request.ms": "0"}


class CountedProcess(BarnabasProcess):
    """`barnabas serve` in callgrind."""

    def __init__(self, folder: Path, source: Path | None) -> None:
        super().__init__(folder / "data", _SETTINGS, source=source)
        self._counts = folder / "counts"

    def command(self) -> list[str]:
        _, *arguments = super().command()
        counted = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self._counts}", "-q"]
        return [*counted, sys.executable, "-m", "barnabas", *arguments]

    def reset(self) -> None:
        _control("--zero", self.pid)

    def instructions(self) -> int:
        """Instructions since the last reset, or since they were read."""
        before = set(self._dumps())
        _control("--dump", self.pid)
        (dump,) = set(self._dumps()) - before
        found = _TOTAL.search(dump.read_text())
        if found is None:
            raise RuntimeError(f"{dump} has no total")
        return int(found[1])

    def _dumps(self) -> list[Path]:
        return list(self._counts.parent.glob(f"{self._counts.name}.*"))


def _control(action: str, pid: int) -> None:
    subprocess.run(["callgrind_control", action, str(pid)], check=True, capture_output=True)


def measure(loads: Sequence[SmallLoad], exchanges: int, source: Path | None) -> dict[str, float]:
    """Instructions of one exchange of each load."""
    with tempfile.TemporaryDirectory() as folder:
        process = CountedProcess(Path(folder), source)
        broker = Broker("callgrind", process, Path(folder) / "data")
        broker.prepare()
        try:
            broker.launch_and_wait(_START_SECONDS)
            topics = [NewTopic(load.name, load.partitions, 1) for load in loads]
            admin = admin_client(broker)
            for created in admin.create_topics(topics, request_timeout=120).values():
                created.result()
            del admin  # it would report the end of the broker
            idle = _idle_rate(process)
            return {load.name: _of_one(process, load, exchanges, idle) for load in loads}
        finally:
            process.stop(timeout=120)


def _idle_rate(process: CountedProcess) -> float:
    """Instructions per second without requests."""
    time.sleep(_IDLE_SECONDS)  # what follows the creation of topics
    process.reset()
    begin = time.monotonic()
    time.sleep(_IDLE_SECONDS)
    return process.instructions() / (time.monotonic() - begin)


def _of_one(process: CountedProcess, load: SmallLoad, exchanges: int, idle: float) -> float:
    with load.connected("127.0.0.1", process.port, load.name) as steps:
        for _ in range(_WARM_UP):
            next(steps)
        process.reset()
        begin = time.monotonic()
        for _ in range(exchanges):
            next(steps)
        seconds = time.monotonic() - begin
        return (process.instructions() - idle * seconds) / exchanges


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [load.name for load in SMALL_LOADS]
    parser.add_argument("--loads", nargs="+", choices=names, default=names)
    parser.add_argument("--exchanges", type=int, default=500)
    parser.add_argument("--source", type=Path, help="the src folder of another version")
    options = parser.parse_args()
    if shutil.which("callgrind_control") is None:
        print("callgrind is missing: install valgrind", file=sys.stderr)
        return 1
    loads = [load for load in SMALL_LOADS if load.name in options.loads]
    for name, instructions in measure(loads, options.exchanges, options.source).items():
        print(f"{name}: {instructions:,.0f} machine instructions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
