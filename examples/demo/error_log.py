"""What the JVM, its Python workers and libraries print would tear the tables apart; it is kept for who asks."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
from pathlib import Path

STDERR = 2


class ErrorLog:
    """Standard error of this process and its children goes to a file, for as long as the `with` block runs."""

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"barnabas-demo-{os.getpid()}.log"
        self._before = -1

    def __enter__(self) -> ErrorLog:
        sys.stderr.flush()
        self._before = os.dup(STDERR)
        log = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(log, STDERR)
        os.close(log)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        return self

    def __exit__(self, *error: object) -> None:
        sys.stderr.flush()
        os.dup2(self._before, STDERR)
        os.close(self._before)

    def keep(self, error: BaseException) -> None:
        traceback.print_exception(error, file=sys.stderr)

    def forget(self) -> None:
        """All went well, or was meant to end: nobody will ask."""
        self.path.unlink(missing_ok=True)
