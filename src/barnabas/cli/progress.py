"""A progress bar on standard error: only where a person looks, and only when it takes long enough to matter."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress:
    """`total` None shows how much so far; a number shows how much is left."""

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
