"""kill -9 of a process that runs all templates; they continue from their checkpoints."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.activity import generator as activity
from barnabas.pipelines.library.enrich import generator as enrich
from barnabas.pipelines.library.logs import generator as logs
from barnabas.pipelines.library.operations import generator as operations
from barnabas.pipelines.library.records import Generated
from barnabas.pipelines.library.warehouse import generator as warehouse
from barnabas.testing import EmbeddedBroker
from tests.pipelines.library.test_logs import Expected, letters_in, written
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.iceberg import rows_of
from tests.support.spark.jars import iceberg_jars
from tests.support.spark.workbench import Workbench, stored_in
from tests.support.waiting import still_running, until

TIMEOUT = 240
COUNT = 800  # the first two hundred of `enrich` are its customers
PER_SECOND = 5.0  # all within the watermark: nothing is late with any batching
INPUTS = {
    "activity": (activity.TOPIC,),
    "operations": (operations.TOPIC,),
    "logs": (logs.TOPIC,),
    "warehouse": (warehouse.TOPIC,),
    "enrich": (enrich.ORDERS, enrich.CUSTOMERS),
}
ICEBERG = "warehouse as iceberg"
# A stateful query, a stateful join, and files: everything in a checkpoint. Other templates combine these.
KEEPING_STATE = ("activity", "enrich", "warehouse")
FIRST_RESULTS = {
    "activity": "activity.traffic",
    "operations": "operations.services",
    "logs": "logs.info",
    "enrich": "shop.orders.enriched",
}

Made = list[Generated]


@pytest.mark.timeout(2 * TIMEOUT + 60)
@pytest.mark.parametrize(
    "names", [KEEPING_STATE, pytest.param((*INPUTS, ICEBERG), marks=pytest.mark.extended)]
)
def test_templates_go_on_after_kill_9_and_take_each_record_once(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """All in one process, because starting it is expensive."""
    with EmbeddedBroker() as broker:
        benches = _templates(names, tmp_path, broker.bootstrap_servers)
        made = {name: bench.generate(COUNT, per_second=PER_SECOND) for name, bench in benches.items()}
        for name, bench in benches.items():
            bench.create_inputs(*INPUTS[bench.template])
            bench.send(made[name][: COUNT // 2])
        _run_and_kill(broker.bootstrap_servers, benches, made, tmp_path / "log")
        for name, bench in benches.items():
            bench.run(spark)
            if name == ICEBERG:
                _check_iceberg(spark, bench, made[name])
            else:
                CHECKS[name](bench, made[name])


def _templates(names: tuple[str, ...], folder: Path, servers: str) -> dict[str, Workbench]:
    settings = {
        "warehouse": {warehouse.TOPIC: "to-parquet"},  # `enrich` reads orders too
        "logs": {"logs.idle": "1 day"},  # no entry times out during a pause of the test
    }
    benches = {
        name: Workbench(name, folder / name, servers, settings.get(name, {}))
        for name in names
        if name != ICEBERG
    }
    if ICEBERG in names and iceberg_jars():
        iceberg = {warehouse.TOPIC: "to-iceberg", "warehouse.format": "iceberg"}
        benches[ICEBERG] = Workbench("warehouse", folder / "iceberg", servers, iceberg)
    return benches


def _run_and_kill(servers: str, benches: dict[str, Workbench], made: dict[str, Made], log: Path) -> None:
    runs = [json.dumps([str(bench.folder), dict(bench.settings)]) for bench in benches.values()]
    command = [sys.executable, "-m", "tests.pipelines.library.run_forever", servers, *runs]
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, cwd=PROJECT_ROOT, start_new_session=True, stdout=output, stderr=output
        )

    def tail() -> str:
        return log.read_text()[-4000:]

    try:
        for name, bench in benches.items():
            until(
                _first_result(name, bench), tail, TIMEOUT, meanwhile=still_running(running, tail), every=0.2
            )
        for name, bench in benches.items():
            bench.send(made[name][COUNT // 2 :])  # so that work is in progress
        time.sleep(1.0)  # at any time: the assertions always hold
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _first_result(name: str, bench: Workbench) -> Callable[[], bool]:
    if name == ICEBERG:
        return lambda: any((bench.folder / "warehouse" / "metadata").glob("snap-*"))
    if name == "warehouse":
        return lambda: any((bench.folder / "warehouse").glob("date=*/hour=*/*.parquet"))
    return lambda: bool(bench.read(FIRST_RESULTS[name]))


def _check_activity(bench: Workbench, made: Made) -> None:
    assert sum(row["count"] for row in bench.latest("activity.traffic").values()) == len(made)


def _check_operations(bench: Workbench, made: Made) -> None:
    assert sum(row["reports"] for row in bench.latest("operations.services").values()) == len(made)


def _check_warehouse(bench: Workbench, made: Made) -> None:
    table = pyarrow.dataset.dataset(
        bench.folder / "warehouse", format="parquet", partitioning="hive"
    ).to_table()
    places = set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert (table.num_rows, len(places)) == (len(made), len(made))


def _check_iceberg(session: SparkSession, bench: Workbench, made: Made) -> None:
    rows = rows_of(session, f"file://{bench.folder}/warehouse")
    assert (len(rows), len({(row["partition"], row["offset"]) for row in rows})) == (len(made), len(made))
    assert not {"date", "hour"} & set(rows[0])  # Iceberg derives the hour


def _check_enrich(bench: Workbench, made: Made) -> None:
    orders = Counter(record.key for record in made if record.topic == enrich.ORDERS)
    assert Counter(f"o{record.key}" for record in bench.read("shop.orders.enriched")) == orders


def _check_logs(bench: Workbench, made: Made) -> None:
    """Each entry and dead letter of the plain Python reference, once; test_logs compares their content."""
    sent = stored_in(bench.servers, "app.logs")
    expected = Expected(sent)
    places = Counter((row["partition"], row["offset"]) for row in written(bench))
    assert places == Counter((entry["partition"], entry["offset"]) for entry in expected.entries)
    assert Counter(map(repr, letters_in(bench))) == Counter(map(repr, expected.letters))
    assert len(sent) == len(made)


CHECKS = {
    "activity": _check_activity,
    "operations": _check_operations,
    "logs": _check_logs,
    "warehouse": _check_warehouse,
    "enrich": _check_enrich,
}
