"""Worker process for long comparisons: `python -m barnabas.services.registry.worker LIMIT...`.

The process starts with the first comparison, runs one at a time, and exits after a minute of idle time. The kernel
limits CPU time and memory of each comparison; a process that exceeds a limit is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from barnabas.common.safe_logging import safe_logger
from barnabas.services.registry import errors
from barnabas.services.registry.compatibility.checking import find_problems
from barnabas.services.registry.errors import RegistryApiError
from barnabas.services.registry.formats.parser import Text, parse
from barnabas.services.registry.limits import StepBudget, TooComplexError, limits
from barnabas.services.registry.model import CompatibilityLevel, SchemaText, SchemaType
from barnabas.services.registry.subjects import Dependency

logger = safe_logger(__name__)

MAX_WAITING = 16  # comparisons; further ones are rejected with 503 and may be retried
IDLE_SECONDS = 60.0
CLOCK_FACTOR = 12  # wall-clock limit as a multiple of the CPU time limit: the machine may be busy


class ComparisonWorker:
    """At most one process with one comparison at a time; further comparisons are queued."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "schema-worker")
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None

    async def compare(self, level: CompatibilityLevel, new: Text, old: Text) -> list[str]:
        """TooComplexError if the comparison exceeds its limits of steps, time or memory."""
        if self._waiting >= MAX_WAITING:
            raise errors.busy("too many schemas are being compared; retry later")
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            return await loop.run_in_executor(self._thread, self._compare, level, new, old)
        finally:
            self._waiting -= 1
            self._idle = loop.call_later(IDLE_SECONDS, self._thread.submit, self._end)

    def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _compare(self, level: CompatibilityLevel, new: Text, old: Text) -> list[str]:
        process = self._process or self._start()
        job = {"level": level, "new": _to_json(new), "old": _to_json(old)}
        with contextlib.suppress(BrokenPipeError):
            _write(process.stdin, job)
        answer = self._read(process)
        if answer is None:
            self._end()
            raise TooComplexError
        if "error" in answer:
            raise RegistryApiError(*answer["error"])
        found: list[str] = answer["problems"]
        return found

    def _read(self, process: subprocess.Popen[bytes]) -> Any:
        """None if the process died, as it does when it exceeds a limit, or hangs."""
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], limits.max_seconds * CLOCK_FACTOR)
        line = process.stdout.readline() if readable else b""
        return json.loads(line) if line else None

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "barnabas.services.registry.worker", *limits.to_arguments()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


def _to_json(text: Text) -> dict[str, Any]:
    schema, needed = text
    return {
        "type": schema.type,
        "text": schema.text,
        "needed": [(one.name, one.schema.text) for one in needed],
    }


def _from_json(document: dict[str, Any]) -> Text:
    kind = SchemaType(document["type"])
    needed = tuple(Dependency(name, SchemaText(kind, text)) for name, text in document["needed"])
    return SchemaText(kind, document["text"]), needed


def _write(pipe: IO[bytes] | None, document: dict[str, Any]) -> None:
    assert pipe is not None
    pipe.write(json.dumps(document).encode() + b"\n")
    pipe.flush()


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Run one comparison. TooComplexError and MemoryError end the process."""
    new, old = _from_json(job["new"]), _from_json(job["old"])
    try:
        parsed = [(schema.type, parse(schema, needed)) for schema, needed in (new, old)]
    except RegistryApiError as error:
        return {"error": [error.status, error.code, error.message]}
    return {
        "problems": find_problems(
            CompatibilityLevel(job["level"]), parsed[0], parsed[1], StepBudget(limits.max_steps)
        )
    }


def limit_job() -> None:
    """Set the kernel's limits on CPU time and memory, relative to current usage."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + limits.max_seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    status = Path("/proc/self/status")
    if status.exists():  # Linux; elsewhere only time is limited
        (kilobytes,) = [
            line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmData")
        ]
        limit = int(kilobytes) * 1024 + limits.max_worker_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))


def main() -> None:
    for text in sys.argv[1:]:
        limits.set(text)
    limits.set("cache-bytes=1")  # do not cache between comparisons
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # it would traverse millions of objects repeatedly
    while line := sys.stdin.buffer.readline():
        limit_job()
        try:
            found = answer(json.loads(line))
        except (TooComplexError, MemoryError):
            return
        _write(sys.stdout.buffer, found)
        gc.collect()


if __name__ == "__main__":
    main()
