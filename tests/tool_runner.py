"""Kafka's tools in one JVM that stays: starting a JVM takes longer than most tools do their work.

The other side of the pipe is `java/ToolRunner.java`, where the format of calls and results is described.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
from collections.abc import Sequence

_INT = struct.Struct(">i")


class ToolRunner:
    """One JVM, one call at a time. A call that takes too long costs the JVM its life."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], stdin: str | None, timeout: float) -> tuple[int, str, str]:
        """The exit code, what the tool wrote, and what it wrote about errors."""
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
