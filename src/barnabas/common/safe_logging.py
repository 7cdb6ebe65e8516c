"""Lines in the broker's log that a client can have a hand in: none can be forged, and no flood fills a disk.

Names of topics, groups, members and clients come over the wire, and with them newlines, escape sequences of terminals
and marks that turn the direction of writing. A line with such characters is written with them escaped, and one that is
very long is cut in the middle. A filter on our own loggers does that, so it holds where a broker is embedded, too.
`barnabas serve` puts the same filter on its handler, for what libraries write.

`rate_limited_logger` writes a few lines of a kind per period and counts the rest. A kind is a logger, a level
and the text before names are filled in.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

MAX_LINE = 2000
"""Characters, by default; a name on the wire may have 32,767, and some texts name many."""

ROOM_FOR_GAP = 40
"""For the words in place of what is cut: a line that was cut is not too long for the next filter."""

PERIOD_SECONDS = 10.0
LINES_IN_A_PERIOD = 10
"""By default."""
LEFT_OUT = "%d more lines like this were left out: %s"


def safe_logger(name: str) -> logging.Logger:
    """For lines that contain names: they stay one line each."""
    logger = logging.getLogger(name)
    logger.addFilter(plain_lines)
    return logger


def rate_limited_logger(name: str) -> logging.Logger:
    """For lines that a client can cause as often as it likes."""
    logger = logging.getLogger(name)
    logger.addFilter(line_limit)  # first: what is left out need not be escaped
    logger.addFilter(plain_lines)
    return logger


def log_suppressed() -> None:
    """Write down now how many lines were left out; for when a broker stops."""
    line_limit.tell(at_once=True)


def use_limits(lines: int, characters: int) -> None:
    """How many lines of a kind are written in a period, and how long one may be; for the whole process."""
    line_limit.lines = lines
    plain_lines.longest = characters


def escaped(text: str) -> str:
    """The same text, with every character that a terminal or a reader of the log would not show as itself escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class PlainLines(logging.Filter):
    """Lets everything through, as single lines; tracebacks keep theirs, indented."""

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
        """The text escaped; of a long one, its beginning and its end."""
        if len(text) <= self.longest:
            return escaped(text)
        self.total_cut += 1
        kept = (self.longest - ROOM_FOR_GAP) // 2
        gap = f" ...{len(text) - 2 * kept} characters... "
        return f"{escaped(text[:kept])}{gap}{escaped(text[-kept:])}"


class _Kind:
    """One kind of line: how many were written in this period, and how many not."""

    __slots__ = ("left_out", "period_ends", "written")

    def __init__(self) -> None:
        self.period_ends = 0.0
        self.written = 0
        self.left_out = 0


class LineLimit(logging.Filter):
    """Lets the first lines of each kind through in each period, and tells how many more there were."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.lines = LINES_IN_A_PERIOD
        self.total_left_out = 0
        self._now = monotonic
        self._kinds: dict[tuple[str, int, str], _Kind] = {}  # as many as there are such lines in the source
        self._next_look = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == LEFT_OUT:
            return True
        now = self._now()
        if now >= self._next_look:
            self.tell()
        key = record.name, record.levelno, str(record.msg)  # by level: warnings must not hide errors
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
        """Say of kinds whose period is over how many lines were left out."""
        now = self._now()
        self._next_look = now + PERIOD_SECONDS
        for (name, _, text), kind in list(self._kinds.items()):
            if kind.left_out and (at_once or now >= kind.period_ends):
                count, kind.left_out = kind.left_out, 0
                logging.getLogger(name).warning(LEFT_OUT, count, text)

    def forget(self) -> None:
        """Begin again, with nothing written; for tests and simulations, which each have a log of their own."""
        self._kinds.clear()
        self._next_look = 0.0


plain_lines = PlainLines()
line_limit = LineLimit()
