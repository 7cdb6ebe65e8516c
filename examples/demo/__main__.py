"""`make demo`: a broker, a shop that writes 2,000 events a second, three pipelines on Spark, and a check of it all.

DEMO_SECONDS=60 python -m examples.demo

Ends with code 0 if every event was counted exactly once by each pipeline, and with 1 if not.
"""

from __future__ import annotations

import os
import sys
import time

from rich.console import Console
from rich.markup import escape

from examples.demo.error_log import ErrorLog

INTERRUPTED = 130  # as shells say it: 128 and the number of the signal
LONGEST = 7_200  # seconds: 60 times that of the shop's time, and a broker keeps a week


def main() -> int:
    began = time.monotonic()
    console = Console(highlight=False)
    asked = os.environ.get("DEMO_SECONDS", "60")
    seconds = _seconds(asked)
    if seconds is None:
        _print_error(
            console,
            f"DEMO_SECONDS={asked} is no length of time: it is for how many seconds the shop is open, a number above 0 "
            f"and up to {LONGEST:,}, such as 60.",
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
        except Exception as error:  # whatever it is: a sentence here, all of it in the log
            log.keep(error)
            _print_error(console, str(error))
            console.print(f"The details are in {log.path}.", soft_wrap=True)
            return 1


def _show(console: Console, seconds: float, began: float, log: ErrorLog) -> int:
    from examples.demo.show import Show  # half of the imports are needed only when Spark is there

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
