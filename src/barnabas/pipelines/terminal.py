"""Whether somebody looks."""

from __future__ import annotations

import os

from rich.console import Console


def is_watched(console: Console) -> bool:
    """Whether tables may change in place: a terminal that can do that, and not the one of a machine that builds.

    `is_interactive` knows TERM=dumb; the file is asked too, because FORCE_COLOR makes a terminal of every file.
    """
    builds = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return console.is_interactive and console.file.isatty() and not builds
