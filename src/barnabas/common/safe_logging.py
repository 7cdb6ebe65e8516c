"""Loggers for messages with client input: prevent log injection and log flooding.

Names of topics, groups, members and clients come over the wire and may contain newlines, terminal escape sequences and
bidirectional control characters. These are escaped, and long lines are shortened in the middle. A filter on Barnabas'
loggers does this, so it also works in embedded brokers. `barnabas serve` adds the same filter to its handler, for the
messages of libraries.

`rate_limited_logger` writes a few lines per kind and period and counts the rest. A kind is a logger, a level and a
format string.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

MAX_LINE = 2000
"""Default maximum length in characters. A name on the wire may have 32,767, and some messages contain many names."""

ROOM_FOR_GAP = 40
"""Reserved for the text that replaces the omitted part, so that the next filter does not shorten the line again."""

PERIOD_SECONDS = 10.0
LINES_IN_A_PERIOD = 10
"""Default number of lines per kind and period."""
LEFT_OUT = "%d more lines like this were left out: %s"


def safe_logger(name: str) -> logging.Logger:
    """Return a logger for messages that contain names: each message stays on one line."""
    logger = logging.getLogger(name)
    logger.addFilter(plain_lines)
    return logger


def rate_limited_logger(name: str) -> logging.Logger:
    """Return a logger for messages that clients can trigger at any rate."""
    logger = logging.getLogger(name)
    logger.addFilter(line_limit)  # first: suppressed lines need no escaping
    logger.addFilter(plain_lines)
    return logger


def log_suppressed() -> None:
    """Log the number of suppressed lines now; called at shutdown."""
    line_limit.tell(at_once=True)


def use_limits(lines: int, characters: int) -> None:
    """Set the maximum lines per kind and period, and characters per line, for the whole process."""
    line_limit.lines = lines
    plain_lines.longest = characters


def escaped(text: str) -> str:
    """Return the text with all non-printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class PlainLines(logging.Filter):
    """Reduces each message to a single line; tracebacks keep their lines, indented."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = MAX_LINE
        self.total_cut = 0

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if len(message) > self.longest or not message.isprintable():
            record.msg, record.args = "%s", (self._plain(message),)
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = "\n".join("  " + self._plain(line) for line in text.split("\n"))
        return True

    def _plain(self, text: str) -> str:
        """Escape the text; shorten a long one to its beginning and end."""
        if len(text) <= self.longest:
            return escaped(text)
        self.total_cut += 1
        kept = (self.longest - ROOM_FOR_GAP) // 2
        gap = f" ...{len(text) - 2 * kept} characters... "
        return f"{escaped(text[:kept])}{gap}{escaped(text[-kept:])}"


class _Kind:
    """Counters of one kind of line: written in this period, and suppressed."""

    __slots__ = ("left_out", "period_ends", "written")

    def __init__(self) -> None:
        self.period_ends = 0.0
        self.written = 0
        self.left_out = 0


class LineLimit(logging.Filter):
    """Passes the first lines of each kind in each period and reports the number of suppressed ones."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.lines = LINES_IN_A_PERIOD
        self.total_left_out = 0
        self._now = monotonic
        self._kinds: dict[tuple[str, int, str], _Kind] = {}  # bounded by the number of log statements
        self._next_look = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == LEFT_OUT:
            return True
        now = self._now()
        if now >= self._next_look:
            self.tell()
        key = record.name, record.levelno, str(record.msg)  # per level: warnings must not hide errors
        kind = self._kinds.get(key) or self._kinds.setdefault(key, _Kind())
        if now >= kind.period_ends:
            kind.period_ends, kind.written = now + PERIOD_SECONDS, 0
        if kind.written < self.lines:
            kind.written += 1
            return True
        kind.left_out += 1
        self.total_left_out += 1
        return False

    def tell(self, *, at_once: bool = False) -> None:
        """Log the number of suppressed lines of each kind whose period has ended."""
        now = self._now()
        self._next_look = now + PERIOD_SECONDS
        for (name, _, text), kind in list(self._kinds.items()):
            if kind.left_out and (at_once or now >= kind.period_ends):
                count, kind.left_out = kind.left_out, 0
                logging.getLogger(name).warning(LEFT_OUT, count, text)

    def forget(self) -> None:
        """Reset all counters; for tests and simulations, which have separate logs."""
        self._kinds.clear()
        self._next_look = 0.0


plain_lines = PlainLines()
line_limit = LineLimit()
