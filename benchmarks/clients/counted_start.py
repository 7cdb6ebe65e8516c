"""`barnabas serve` until it says that it is ready: imported modules and executed bytecode instructions, in one line.

    python benchmarks/clients/counted_start.py DIR [MODULE ...]

Modules are counted, so this one imports nothing that the broker does not. The modules that are named are imported, too:
a test sees with them that a needless import is noticed.
"""

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

READY = "Barnabas is ready on "


class Counter:
    """Stands in for stdout, because the line that announces the broker is the moment to stop counting."""

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
            os._exit(0)  # there is nothing to flush: the folder is thrown away
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
