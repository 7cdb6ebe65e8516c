"""The demo from its beginning to its summary."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from rich.console import Console
from rich.table import Table

from barnabas.demo.checking import Check, all_checks
from barnabas.demo.feeding import RATE, Feeder
from barnabas.demo.pipelines import SHORT_LIVED, Pipelines, copy_pipelines
from barnabas.demo.results import Results
from barnabas.demo.screen import Screen
from barnabas.pipelines.definitions.files import BOOTSTRAP, PipelineFiles
from barnabas.testing import EmbeddedBroker

TOPICS = {"activity.topic": "shop.activity", "operations.topic": "shop.metrics"}
RESULTS = (
    "activity.pages",
    "activity.traffic",
    "activity.searches",
    "shop.activity.dead-letters",
    "operations.services",
    "operations.alarms",
)
LOOK_SECONDS = 0.25
SEED = 2026


class Show:
    """Counts from `began`, a moment of the monotonic clock."""

    def __init__(
        self, console: Console, seconds: float, began: float, java_options: Sequence[str] = SHORT_LIVED
    ) -> None:
        self._console = console
        self._seconds = seconds
        self._java_options = java_options
        self._screen = Screen(console, seconds, began)

    def run(self) -> bool:
        """Whether every event was counted exactly once."""
        with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as name, EmbeddedBroker() as broker:
            folder = Path(name)
            files = copy_pipelines(folder, self._settings(broker.bootstrap_servers, folder))
            _make_topics(broker, files)
            self._console.print(
                f"A broker is ready on {broker.bootstrap_servers}. The shop writes {RATE:,} events a second; an hour "
                "passes in a minute.\n"
            )
            with Pipelines(files, self._screen.say, self._screen.hear, self._java_options) as pipelines:
                feeder = Feeder(broker.bootstrap_servers, TOPICS, self._seconds, SEED)
                checks = self._play(pipelines, feeder, broker.bootstrap_servers, folder)
        _summarize(self._console, checks, self._screen, feeder)
        return all(check.good for check in checks)

    def _settings(self, servers: str, folder: Path) -> dict[str, str]:
        return {
            BOOTSTRAP: servers,
            **TOPICS,
            "warehouse.topics": ",".join(TOPICS.values()),
            "warehouse.path": f"file://{folder}/lake",
        }

    def _play(self, pipelines: Pipelines, feeder: Feeder, servers: str, folder: Path) -> list[Check]:
        with self._screen, feeder, Results(servers, RESULTS) as results:
            opening = pipelines.started
            while feeder.running or not opening.done():
                self._look(pipelines, feeder, results)
            opening.result()
            feeder.finish()
            self._screen.say("the shop is closed; counting what is left")
            self._wait_for(pipelines.finish(), pipelines, feeder, results)
            self._screen.say("reading the results once more, whole")
            results.read_to_the_end()
            self._screen.say("")
            self._look(pipelines, feeder, results)
        return all_checks(feeder, results, TOPICS, folder / "lake")

    def _wait_for(self, done: Future[None], pipelines: Pipelines, feeder: Feeder, results: Results) -> None:
        while not done.done():
            self._look(pipelines, feeder, results)
        done.result()

    def _look(self, pipelines: Pipelines, feeder: Feeder, results: Results) -> None:
        time.sleep(LOOK_SECONDS)
        pipelines.look()
        self._screen.show(sum(feeder.delivered.values()), results, pipelines.flows)


def _make_topics(broker: EmbeddedBroker, files: Sequence[PipelineFiles]) -> None:
    """Those for results, too: what follows them is there before the pipelines are."""
    for topic in TOPICS.values():
        broker.create_topic(topic, partitions=3)
    for wanted in (topic for each in files for topic in each.settings.topics):
        broker.create_topic(wanted.name, partitions=wanted.partitions, configs=dict(wanted.settings))


def _summarize(console: Console, checks: list[Check], screen: Screen, feeder: Feeder) -> None:
    table = Table(title="Every event once?", title_justify="left")
    table.add_column("what was counted")
    table.add_column("written", justify="right")
    table.add_column("counted", justify="right")
    table.add_column("")
    for check in checks:
        verdict = "[green]exact" if check.good else "[red]WRONG"
        table.add_row(check.what, f"{check.expected:,}", f"{check.found:,}", verdict)
    console.print()
    console.print(table)
    fired = sum(event.status == "fired" for event in screen.alarms)
    console.print(
        f"{sum(feeder.delivered.values()):,} events written; {fired} alarms fired and {len(screen.alarms) - fired} "
        f"resolved. The first figures came after {screen.first_figures or 0:.0f} s, the end after "
        f"{screen.elapsed:.0f} s."
    )
    wrong = sum(not check.good for check in checks)
    if wrong:
        console.print(f"[red]{wrong} of {len(checks)} counts are wrong.")
    else:
        console.print("[green]Every event was counted exactly once, by each pipeline.")
        console.print("Your turn: [bold]barnabas pipeline init clicks --template activity")
