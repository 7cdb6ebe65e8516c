"""`make demo`: a broker, a shop that writes 2,000 events a second, three pipelines on Spark, and a check of it all.

DEMO_SECONDS=60 python -m barnabas.demo

Ends with code 0 if every event was counted exactly once by each pipeline, and with 1 if not.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from barnabas.demo.checking import Check, all_checks
from barnabas.demo.feeding import Feeder
from barnabas.demo.results import Results
from barnabas.demo.screen import Screen
from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.definitions.templates import copy_template
from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.running.runner import LOOK_SECONDS, Runner
from barnabas.pipelines.running.sessions import pipeline_session
from barnabas.testing import EmbeddedBroker

TEMPLATES = ("activity", "operations", "warehouse")  # in this order: the first figures come from the first
TOPICS = {"activity.topic": "shop.activity", "operations.topic": "shop.metrics"}
RESULTS = (
    "activity.pages",
    "activity.traffic",
    "activity.searches",
    "shop.activity.dead-letters",
    "operations.services",
    "operations.alarms",
)
DRAIN_SECONDS = 120.0
LOG = Path(tempfile.gettempdir()) / f"barnabas-demo-{os.getpid()}.log"
SEED = 2026


def main() -> int:
    seconds = float(os.environ.get("DEMO_SECONDS", "60"))
    console = Console(highlight=False)
    console.rule("[bold]Barnabas: a shop, its log, and three pipelines on Spark")
    _send_errors_to(LOG)
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder, EmbeddedBroker() as broker:
        for topic in TOPICS.values():
            broker.create_topic(topic, partitions=3)
        feeder = Feeder(broker.bootstrap_servers, TOPICS, seconds, SEED)
        screen = Screen(console)
        feeder.start()
        console.print(
            f"A broker is ready on {broker.bootstrap_servers}; the shop writes 2,000 events a second, an hour "
            "passes in a minute. Starting Spark."
        )
        checks = _run(seconds, Path(folder), broker.bootstrap_servers, feeder, screen)
    _summarize(console, checks, screen, feeder)
    return 0 if all(check.good for check in checks) else 1


def _send_errors_to(path: Path) -> None:
    """What the JVM, its Python workers and libraries print would tear the tables apart; it is kept for who asks."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 2)
    os.close(log)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)


def _run(seconds: float, folder: Path, servers: str, feeder: Feeder, screen: Screen) -> list[Check]:
    settings = {
        BOOTSTRAP: servers,
        **TOPICS,
        "warehouse.topics": ",".join(TOPICS.values()),
        "warehouse.path": f"file://{folder}/lake",
    }
    sparks = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    with pipeline_session("barnabas demo", sparks) as session:
        runners = [_prepare(name, folder, settings, session, screen) for name in TEMPLATES]
        results = Results(servers, RESULTS)
        starting = ThreadPoolExecutor(1).submit(_start_all, runners)
        try:
            with screen:
                while time.monotonic() - screen.began < seconds or not starting.done():
                    time.sleep(LOOK_SECONDS)
                    _look(runners, feeder, results, screen)
                starting.result()
                feeder.stop()
                for runner in runners:
                    runner.finish(DRAIN_SECONDS)
                results.read_to_the_end()
                _look(runners, feeder, results, screen)
            return all_checks(feeder, results, TOPICS, folder / "lake")
        finally:
            for runner in runners:
                runner.close()
            results.close()


def _prepare(name: str, folder: Path, settings: Mapping[str, str], session: Any, screen: Screen) -> Runner:
    copy_template(name, folder / name)
    runner = Runner(read_pipeline(folder / name, settings), session, alarm_listener=screen.hear)
    runner.prepare()
    return runner


def _start_all(runners: list[Runner]) -> None:
    """One after another, while the screen shows what the first ones find."""
    for runner in runners:
        runner.start()


def _look(runners: list[Runner], feeder: Feeder, results: Results, screen: Screen) -> None:
    for runner in runners:
        runner.look()
    flows = [flow for runner in runners for flow in runner.flows.values()]
    screen.show(sum(feeder.delivered.values()), results, flows)


def _summarize(console: Console, checks: list[Check], screen: Screen, feeder: Feeder) -> None:
    table = Table(
        "what was counted", "written", "counted", "", title="Every event once?", title_justify="left"
    )
    for check in checks:
        verdict = "[green]exact" if check.good else "[red]WRONG"
        table.add_row(check.what, f"{check.expected:,}", f"{check.found:,}", verdict)
    console.print(table)
    fired = sum(event.status == "fired" for event in screen.alarms)
    resolved = len(screen.alarms) - fired
    first = f"{screen.first_figures:.0f} s" if screen.first_figures is not None else "never"
    console.print(
        f"{sum(feeder.delivered.values()):,} events written; {fired} alarms fired and {resolved} resolved; "
        f"the first figures came after {first}."
    )
    console.print("Your turn: [bold]barnabas pipeline init clicks --template activity")


if __name__ == "__main__":
    try:
        code = main()
    except (PipelineError, RuntimeError) as error:
        print(f"Error: {error}\n{LOG} has the details.")
        sys.exit(1)
    else:
        LOG.unlink(missing_ok=True)
        sys.exit(code)
