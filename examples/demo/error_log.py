"""Log file for the output of the JVM, its Python workers and libraries, which would corrupt the tables on screen."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
from pathlib import Path

STDERR = 2


class ErrorLog:
    """Redirects standard error of this process and its children to a file within the `with` block."""

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
        """Delete the log after a success or an intended end."""
        self.path.unlink(missing_ok=True)
