"""`python -m tests.fuzz --frames 1000000 --seed 7 [--minutes 60] [--corpus DIR] [--listener sasl --stage before]`

Of the ports that speak something else than Kafka's protocol: `python -m tests.fuzz --port registry --minutes 5`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.findings import Findings, summary
from tests.fuzz.ports.process import PORTS
from tests.fuzz.ports.running import PortRun
from tests.fuzz.running import Run
from tests.fuzz.variants import AFTER, BEFORE, LISTENERS, chosen

PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that much time")
    parser.add_argument(
        "--corpus", type=Path, help="where frames that fail are kept; sent first by the next run"
    )
    parser.add_argument("--no-replay", action="store_true", help="leave out what has failed before")
    parser.add_argument("--listener", choices=tuple(LISTENERS), help="only to this one")
    parser.add_argument(
        "--stage", choices=(BEFORE, AFTER), help="only before or after the client has authenticated"
    )
    parser.add_argument("--port", choices=(*PORTS, "all"), help="a port of HTTP, syslog or statsd instead")
    arguments = parser.parse_args()
    if arguments.port is not None:
        return _fuzz_ports(PORTS if arguments.port == "all" else (arguments.port,), arguments)
    variants = chosen(arguments.listener, arguments.stage)
    if not variants:
        parser.error("on plaintext nobody authenticates: there is nothing before that")
    _print(f"seed {arguments.seed}: {', '.join(map(str, variants))}")
    run = Run(arguments.seed, arguments.corpus, _print, variants)
    run.progress = _Progress(arguments.frames, run.findings).tell
    try:
        run.run(arguments.frames, arguments.minutes * 60, replay=not arguments.no_replay)
    except KeyboardInterrupt:
        _print("interrupted")
    finally:
        run.close()
    for line in summary(run.findings):
        sys.stdout.write(f"{line}\n")
    return 1 if run.findings.failures else 0


def _fuzz_ports(ports: Sequence[str], arguments: argparse.Namespace) -> int:
    _print(f"seed {arguments.seed}")
    found = [
        PortRun(port, arguments.seed, _print).run(arguments.frames, arguments.minutes * 60) for port in ports
    ]
    for findings in found:
        sys.stdout.writelines(f"{line}\n" for line in findings.summary())
    return 1 if any(findings.failures for findings in found) else 0


class _Progress:
    def __init__(self, frames: int, findings: Findings) -> None:
        self._frames = frames
        self._findings = findings
        self._told = time.monotonic()

    def tell(self) -> None:
        if time.monotonic() - self._told < PROGRESS_SECONDS:
            return
        self._told = time.monotonic()
        done, rate = self._findings.frames, self._findings.rate
        left = (self._frames - done) / rate / 60
        _print(
            f"{done:,} frames ({rate:,.0f}/s), {len(self._findings.failures)} failures, about {left:,.0f} minutes left"
        )


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
