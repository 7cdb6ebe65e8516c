"""Cost of starting a broker: imported modules, bytecode instructions, memory.

    python -m benchmarks.starting            # one JSON object

Modules and instructions depend neither on the machine nor on its load, so limits can be a few per cent above them
(gate.py). Memory is compared, in the same run, with a process that has imported only asyncio and ssl, because the
resident share of shared libraries differs between machines.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.subjects.processes import resident_bytes
from tests.support.brokers import BrokerProcess

_COUNTED = Path(__file__).parent / "clients" / "counted_start.py"
_BARE = "import asyncio, ssl, sys; print(flush=True); sys.stdin.read()"
_SECONDS = 120


@dataclass(frozen=True)
class Start:
    modules: int
    instructions: int
    memory: float
    """Memory of the broker, as a multiple of a process with `import asyncio, ssl`."""


def measure_start() -> Start:
    modules, instructions = count()
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        return Start(modules, instructions, resident_bytes(broker.pid) / _bare_bytes())


def count(*needless: str) -> tuple[int, int]:
    """Count modules and instructions in a separate process, since tracing is slow. `needless` are extra imports."""
    # Write missing bytecode: compilation is not part of the start.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(_COUNTED), folder, *needless],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=environment,
            check=True,
        )
    modules, instructions = done.stdout.split()
    return int(modules), int(instructions)


def _bare_bytes() -> int:
    command = [sys.executable, "-c", _BARE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = resident_bytes(process.pid)
        process.communicate()
    return used


if __name__ == "__main__":
    print(json.dumps(asdict(measure_start())))
