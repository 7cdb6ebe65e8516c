"""Live display in an interactive terminal."""

from __future__ import annotations

import os
from typing import Self

from rich.console import Console
from rich.live import Live


def is_watched(console: Console) -> bool:
    """True if tables can be updated in place: in an interactive terminal, and not in CI.

    `is_interactive` covers TERM=dumb; `isatty` is checked too, because FORCE_COLOR makes Rich treat any file as a
    terminal.
    """
    builds = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return console.is_interactive and console.file.isatty() and not builds


class LiveScreen:
    """Starts and stops the live display; `_live` is None without a terminal, and lines are printed instead."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console) if is_watched(console) else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
