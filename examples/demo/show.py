"""The demo, from start to summary."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from rich.console import Console

from barnabas.pipelines.definitions.files import BOOTSTRAP, PipelineFiles
from barnabas.testing import EmbeddedBroker
from examples.demo.checking import (
    Check,
    activity_checks,
    alarm_checks,
    operations_checks,
    warehouse_checks,
)
from examples.demo.console_process import ConsoleProcess
from examples.demo.feeding import RATE, Feeder
from examples.demo.pipelines import SHORT_LIVED, Pipelines, copy_pipelines
from examples.demo.results import Results
from examples.demo.screen import Screen
from examples.demo.summary import summarize

TOPICS = {"activity.topic": "shop.activity", "operations.topic": "shop.metrics"}
RESULTS = (
    "activity.pages",
    "activity.traffic",
    "activity.searches",
    "shop.activity.dead-letters",
    "operations.services",
    "operations.alarms",
)
POLL_SECONDS = 0.25
SEED = 2026


class Show:
    """Measures time from `began`, a value of the monotonic clock."""

    def __init__(
        self, console: Console, seconds: float, began: float, java_options: Sequence[str] = SHORT_LIVED
    ) -> None:
        self._console = console
        self._seconds = seconds
        self._java_options = java_options
        self._screen = Screen(console, seconds, began)

    def run(self) -> bool:
        """Run the demo; return True if every event was counted exactly once."""
        with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as name, EmbeddedBroker() as broker:
            folder = Path(name)
            files = copy_pipelines(folder, self._settings(broker.bootstrap_servers, folder))
            _make_topics(broker, files)
            self._console.print(
                f"A broker is ready on {broker.bootstrap_servers}. The shop writes {RATE:,} events a second; an hour "
                "passes in a minute.\n"
            )
            with (
                ConsoleProcess(broker.bootstrap_servers, folder / "console", self._screen.show_console),
                Pipelines(files, self._screen.say, self._screen.hear, self._java_options) as pipelines,
            ):
                feeder = Feeder(broker.bootstrap_servers, TOPICS, self._seconds, SEED, folder)
                checks = self._play(pipelines, feeder, broker.bootstrap_servers, folder)
                late = {flow.name: flow.late for flow in pipelines.flows if flow.late}
        summarize(self._console, checks, self._screen, sum(feeder.delivered.values()), late)
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
            self._screen.say("reading all results again")
            results.read_to_the_end()
            self._screen.say("")
            self._look(pipelines, feeder, results)
        return [
            *activity_checks(feeder.written, results.latest, results.counts["shop.activity.dead-letters"]),
            *operations_checks(feeder.written, results.latest),
            *alarm_checks(
                feeder.written,
                pipelines.rules,
                feeder.incidents,
                self._screen.alarms,
                results.latest["operations.alarms"].values(),
            ),
            *warehouse_checks(feeder.delivered, folder / "lake"),
        ]

    def _wait_for(self, done: Future[None], pipelines: Pipelines, feeder: Feeder, results: Results) -> None:
        while not done.done():
            self._look(pipelines, feeder, results)
        done.result()

    def _look(self, pipelines: Pipelines, feeder: Feeder, results: Results) -> None:
        time.sleep(POLL_SECONDS)
        pipelines.look()
        self._screen.show(sum(feeder.delivered.values()), results, pipelines.flows)


def _make_topics(broker: EmbeddedBroker, files: Sequence[PipelineFiles]) -> None:
    """Create all topics, including result topics, so that their readers can start before the pipelines."""
    for topic in TOPICS.values():
        broker.create_topic(topic, partitions=3)
    for requested in (topic for each in files for topic in each.settings.topics):
        broker.create_topic(requested.name, partitions=requested.partitions, configs=dict(requested.settings))
