"""Kafka's command-line tools, called from tests.

result = run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list")

Most calls share one JVM, because starting one takes longer than most tools do their work. The other side of its pipe is
`tests/java/ToolRunner.java`, where the format of calls and results is described.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.kafka.jars import jar, kafka_libs
from tests.support.programs import PROJECT_ROOT

LOG4J_CONFIG = PROJECT_ROOT / "tests" / "java" / "log4j2.xml"
TOOL_RUNNER = PROJECT_ROOT / "tests" / "java" / "ToolRunner.java"
_LOG4J = f"-Dlog4j2.configurationFile={LOG4J_CONFIG}"
# A tool lives for a second or two: compile lightly, share the JDK's classes, start no parallel collector.
TOOL_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx512m")
_INT = struct.Struct(">i")


@dataclass(frozen=True)
class ToolResult:
    stdout: str
    stderr: str
    returncode: int

    def check(self) -> ToolResult:
        """The result itself, or an error with the output of the tool."""
        if self.returncode != 0:
            raise AssertionError(f"the tool ended with {self.returncode}\n{self.stdout}\n{self.stderr}")
        return self


def java_command(main_class: str, *args: str, flags: tuple[str, ...] = TOOL_FLAGS) -> list[str]:
    """The command line that runs a class of Kafka's jars."""
    return ["java", *flags, _LOG4J, "-cp", f"{kafka_libs()}/*", main_class, *args]


def run_tool(
    main_class: str,
    *args: str,
    timeout: float = 60,
    stdin: str | None = None,
    flags: tuple[str, ...] = TOOL_FLAGS,
) -> ToolResult:
    """Run one of Kafka's tools to its end. It gets a separate JVM, which takes one to two seconds to start, if it
    needs flags, is one of our programs, or runs concurrently."""
    if flags is TOOL_FLAGS and not main_class.endswith(".java") and _runner_is_taken.acquire(blocking=False):
        try:
            code, stdout, stderr = _runner().run((main_class, *args), stdin, timeout)
        finally:
            _runner_is_taken.release()
        return ToolResult(stdout, stderr, code)
    return _run_alone(java_command(main_class, *args, flags=flags), timeout, stdin)


def _run_alone(command: list[str], timeout: float, stdin: str | None) -> ToolResult:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    return ToolResult(done.stdout, done.stderr, done.returncode)


_runner_is_taken = threading.Lock()
# Where tools are, and nothing that they share: see ToolRunner.java.
_TOOL_JARS = ("kafka-tools", "kafka_2.13")


@functools.cache
def _runner() -> ToolRunner:
    tools = [str(jar(name)) for name in _TOOL_JARS]
    shared = [str(path) for path in sorted(kafka_libs().glob("*.jar")) if str(path) not in tools]
    command = ["java", *TOOL_FLAGS, _LOG4J, "-cp", ":".join(shared), str(TOOL_RUNNER), *tools]
    runner = ToolRunner(command)
    atexit.register(runner.close)
    return runner


class ToolRunner:
    """One JVM, one call at a time. A call that takes too long costs the JVM its life."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], stdin: str | None, timeout: float) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        process = self._running()
        deadline = time.monotonic() + timeout
        try:
            return self._call(process, words, stdin or "", deadline)
        except TimeoutError:
            self.close()
            raise subprocess.TimeoutExpired(list(words), timeout) from None
        except BaseException:
            self.close()  # its next answer would be to this call
            raise

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        return self._process

    def _call(
        self, process: subprocess.Popen[bytes], words: Sequence[str], stdin: str, deadline: float
    ) -> tuple[int, str, str]:
        assert process.stdin is not None
        texts = (_INT.pack(len(text)) + text for text in (each.encode() for each in (*words, stdin)))
        _write_all(process.stdin.fileno(), _INT.pack(len(words)) + b"".join(texts))
        assert process.stdout is not None
        answers = process.stdout.fileno()
        (code,) = _INT.unpack(_read_exactly(answers, _INT.size, deadline))
        output, errors = (_read_text(answers, deadline) for _ in range(2))
        return code, output, errors

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read_text(descriptor: int, deadline: float) -> str:
    (length,) = _INT.unpack(_read_exactly(descriptor, _INT.size, deadline))
    return _read_exactly(descriptor, length, deadline).decode()


def _read_exactly(descriptor: int, length: int, deadline: float) -> bytes:
    read = bytearray()
    while len(read) < length:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(descriptor, length - len(read))
        if not part:
            raise RuntimeError("the JVM that runs Kafka's tools ended in the middle of a call")
        read += part
    return bytes(read)
