"""`make demo`: a broker, a shop that writes 2,000 events a second, three Spark pipelines, and a check of all counts.

DEMO_SECONDS=60 python -m examples.demo

The exit code is 0 if each pipeline counted every event exactly once, otherwise 1.
"""

from __future__ import annotations

import os
import sys
import time

from rich.console import Console
from rich.markup import escape

from examples.demo.error_log import ErrorLog

INTERRUPTED = 130  # shell convention: 128 plus the signal number
LONGEST = 7_200  # seconds; the shop's time runs 60 times faster, and a broker retains a week


def main() -> int:
    began = time.monotonic()
    console = Console(highlight=False)
    setting = os.environ.get("DEMO_SECONDS", "60")
    seconds = _seconds(setting)
    if seconds is None:
        _print_error(
            console,
            f"not a valid duration: DEMO_SECONDS={setting}. It is the number of seconds the shop is open: above 0, "
            f"up to {LONGEST:,}, for example 60.",
        )
        return 2
    console.rule("[bold]Barnabas: a shop, its log, and three pipelines on Spark")
    with ErrorLog() as log:
        try:
            return _show(console, seconds, began, log)
        except KeyboardInterrupt:
            log.forget()
            console.print("Stopped.")
            return INTERRUPTED
        except Exception as error:  # one sentence on the screen, the traceback in the log
            log.keep(error)
            _print_error(console, str(error))
            console.print(f"The details are in {log.path}.", soft_wrap=True)
            return 1


def _show(console: Console, seconds: float, began: float, log: ErrorLog) -> int:
    from examples.demo.show import Show  # half of its imports are needed only with Spark

    if Show(console, seconds, began).run():
        log.forget()
        return 0
    console.print(f"What was said meanwhile is in {log.path}.", soft_wrap=True)
    return 1


def _print_error(console: Console, text: str) -> None:
    console.print(f"[red]Error:[/] {escape(text)}", soft_wrap=True)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds <= LONGEST else None


if __name__ == "__main__":
    sys.exit(main())
