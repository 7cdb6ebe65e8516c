"""What brokers log while a story is told: nothing is printed, but an exception is a finding."""

from __future__ import annotations

import logging

from barnabas.log_lines import line_limit


class Complaints(logging.Handler):
    """Use with `with`; `first` is the first exception that was logged meanwhile, and what was said with it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None
        self._logger = logging.getLogger("barnabas")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self.first is None:
            formatter = logging.Formatter()
            self.first = f"{record.getMessage()}\n{formatter.formatException(record.exc_info)}"

    def __enter__(self) -> None:
        line_limit.forget()  # what another story has said does not count
        self._before = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._before
