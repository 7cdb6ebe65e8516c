"""`barnabas` with a disk whose latency is read from a file; needs no root and no kernel module.

    python -m tests.chaos.slow_broker CONTROL serve --config ...

Every append takes as many seconds longer as the file CONTROL says; it is read again when it has changed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from barnabas.broker import platform
from barnabas.cli.main import main
from barnabas.testing.slow_files import SlowFileSystem


class ControlledFileSystem(SlowFileSystem):
    def __init__(self, control: Path) -> None:
        super().__init__()
        self._control = control
        self._read_at = 0

    def before_append(self, path: str) -> None:
        changed = os.stat(self._control).st_mtime_ns
        if changed != self._read_at:
            self._read_at = changed
            self.delay("/", float(self._control.read_text()))
        super().before_append(path)


if __name__ == "__main__":
    control = Path(sys.argv.pop(1))
    vars(platform)["LocalFileSystem"] = lambda: ControlledFileSystem(control)
    main()
