"""Progress display of the demo: tables updated in place, or occasional lines if the output is not a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.pipelines.terminal import LiveScreen
from examples.demo.results import Results
from examples.demo.tables import alarm_text, all_tables, clock_of

TELL_SECONDS = 5.0
FIGURES = ("activity.pages", "activity.traffic", "activity.searches", "operations.services")


class Screen(LiveScreen):
    """Measures time from `began`, a value of the monotonic clock."""

    def __init__(self, console: Console, seconds: float, began: float) -> None:
        super().__init__(console)
        self._console = console
        self._seconds = seconds
        self._began = began
        self._told = began
        self._step = "Spark is starting"
        self._console_at = ""
        self.first_figures: float | None = None
        """Seconds until the first counts."""
        self.alarms: list[AlarmEvent] = []

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def say(self, step: str) -> None:
        """Show the current step; may be called from any thread."""
        self._step = step
        if self._live is None and step:
            self._line(Text(f"{self.elapsed:4.0f} s  {step}"))

    def show_console(self, where: str) -> None:
        """Show the console's address, or why it is not available; may be called from any thread."""
        self._console_at = where
        if self._live is None:
            self._line(Text(f"{self.elapsed:4.0f} s  {where}"))

    def hear(self, events: Sequence[AlarmEvent]) -> None:
        self.alarms += events
        if self._live is None:
            for event in events:
                prefix = f"{self.elapsed:4.0f} s  alarm at {clock_of(event)}: "
                self._line(Text.assemble(prefix, alarm_text(event)))

    def show(self, sent: int, results: Results, flows: Sequence[FlowProgress]) -> None:
        if self.first_figures is None and any(results.latest[topic] for topic in FIGURES):
            self.first_figures = self.elapsed
            self._told = 0.0
        if self._live is not None:
            self._live.update(self._picture(sent, results, flows))
        elif time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            self._line(self._headline(sent, results))

    def _line(self, text: Text) -> None:
        """Print without wrapping, since the output may be a file."""
        self._console.print(text, soft_wrap=True)

    def _headline(self, sent: int, results: Results) -> Text:
        counted = sum(row["count"] for row in list(results.latest["activity.traffic"].values()))
        fired = sum(event.status == "fired" for event in list(self.alarms))
        alarms = "1 alarm" if fired == 1 else f"{fired} alarms"
        return Text(
            f"{self.elapsed:4.0f} s  {sent:,} events written, {counted:,} of the shop counted, {alarms} fired"
        )

    def _picture(self, sent: int, results: Results, flows: Sequence[FlowProgress]) -> RenderableType:
        width, height = self._console.size
        return Group(
            self._headline(sent, results),
            Text.assemble("        ", (self._console_at, "bold"), "  ", (self._step, "dim"), no_wrap=True),
            "",
            all_tables(results, list(self.alarms), flows, width, height),
        )
