"""Runs `barnabas serve` until it is ready, and prints the number of imported modules and executed instructions.

    python benchmarks/clients/counted_start.py DIR [MODULE ...]

Modules are counted, so this one imports only modules that the broker imports. The named modules are imported as well:
a test uses them to check that an unnecessary import is detected.
"""

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

READY = "Barnabas is ready on "


class Counter:
    """Replaces stdout, because the line that announces the broker ends the count."""

    def __init__(self) -> None:
        self.instructions = 0

    def entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.stepped

    def stepped(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            self.instructions += 1
        return self.stepped

    def write(self, text: str) -> int:
        if text.startswith(READY):
            sys.settrace(None)
            os.write(1, f"{len(sys.modules)} {self.instructions}\n".encode())
            os._exit(0)  # nothing to flush: the folder is temporary
        return len(text)

    def flush(self) -> None: ...


def main() -> None:
    counter = Counter()
    needless = sys.argv[2:]
    sys.argv = ["barnabas", "serve", "--data", sys.argv[1], "--listen", "127.0.0.1:0"]
    sys.stdout = counter
    sys.settrace(counter.entered)
    for module in needless:
        __import__(module)
    from barnabas.cli.main import main as barnabas

    barnabas()


if __name__ == "__main__":
    main()
