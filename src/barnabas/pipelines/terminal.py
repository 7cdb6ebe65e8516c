"""A screen that changes in place, where a person watches a terminal."""

from __future__ import annotations

import os
from typing import Self

from rich.console import Console
from rich.live import Live


def is_watched(console: Console) -> bool:
    """Whether tables may change in place: a terminal that can do that, and not the one of a machine that builds.

    `is_interactive` knows TERM=dumb; the file is asked too, because FORCE_COLOR makes a terminal of every file.
    """
    builds = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return console.is_interactive and console.file.isatty() and not builds


class LiveScreen:
    """Begins and ends the display; `_live` is None where nobody watches, and lines are printed instead."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console) if is_watched(console) else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
