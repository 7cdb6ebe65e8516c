"""Results as tables or as JSON. The field names of the JSON are stable: fields are only added."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.cli.options import OutputFormat

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


# -- A progress bar on standard error: only on a terminal, and only for longer operations


class ProgressBar:
    """`total` None shows the amount done; a number also shows the remainder."""

    def __init__(self, text: str, total: int | None, *, unit: str = "bytes") -> None:
        self._text = text
        self._total = total
        self._unit = unit
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = self._make_bar()
            self._task = self._bar.add_task(self._text, total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def reached(self, amount: int, total: int | None = None) -> None:
        """`total` if it has changed."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=amount, total=self._total if total is None else total)

    def _make_bar(self) -> RichProgress:
        from rich import progress
        from rich.console import Console

        amount = progress.DownloadColumn() if self._unit == "bytes" else progress.MofNCompleteColumn()
        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            amount,
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )


Row = Mapping[str, Any]

WIDE = 10_000  # columns without a terminal: a pipe must not get wrapped or truncated lines


def show_rows(output: OutputFormat, rows: Sequence[Row], columns: Sequence[str], empty: str = "") -> None:
    """Print rows: only `columns` in a table, all fields in JSON."""
    if output is OutputFormat.JSON:
        show_json(list(rows))
    elif rows:
        show_table(rows, columns)
    elif empty:
        say(empty)


def show_json(document: Any) -> None:
    import json

    print(json.dumps(document, indent=2, ensure_ascii=False))


def show_done(output: OutputFormat, text: str, document: Any) -> None:
    """Show the result of a change as a message or as JSON."""
    if output is OutputFormat.JSON:
        show_json(document)
    else:
        say(text)


def show_table(rows: Sequence[Row], columns: Sequence[str], titles: Sequence[str] | None = None) -> None:
    """Print a table. `titles` are the column headers; the default is the column names in capitals."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, title in zip(
        columns, titles or [name.replace("_", " ").upper() for name in columns], strict=True
    ):
        numeric = all(isinstance(row[column], int) for row in rows)
        table.add_column(Text(title), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(width=WIDE, highlight=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def show_definitions(rows: Sequence[Row], term: str, description: str) -> None:
    """A list of terms, each with a paragraph below it: for texts too long for a table."""
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size().columns, 110)
    for row in rows:
        print(row[term])
        print(textwrap.fill(row[description] or "", width, initial_indent="    ", subsequent_indent="    "))


def say(text: str) -> None:
    """Print a message to standard error, separate from the output."""
    print(text, file=sys.stderr)


def count(number: int, noun: str) -> str:
    """`1 record`, `2 records`, `2 batches`."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{plural}"


def size(number: float) -> str:
    """Format bytes for display."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text}" for name, text in value.items())
    return str(value)
