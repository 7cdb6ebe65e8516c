"""`barnabas pipeline run` and Spark's runner as separate programs."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest

from barnabas.pipelines.library.enrich import generator as enrich
from barnabas.pipelines.library.logs import generator as logs
from barnabas.pipelines.library.operations import generator as operations
from barnabas.pipelines.library.warehouse import generator as warehouse
from examples.demo.pipelines import SHORT_LIVED
from tests.pipelines.library.test_logs import Expected, letters_in, written
from tests.support.cli import Cli
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.workbench import Workbench, stored_in
from tests.support.waiting import still_running, until

PROGRAMS = Path(sys.executable).parent
TIMEOUT = 240  # seconds for one run, on a busy machine
RECORDS = 500
OTHER_TEMPLATES = {
    "enrich": (enrich.ORDERS, enrich.CUSTOMERS),
    "logs": (logs.TOPIC,),
    "operations": (operations.TOPIC,),
    "warehouse": (warehouse.TOPIC,),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * TIMEOUT + 60),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark wants a Java"),
]


def environment() -> dict[str, str]:
    """The programs of this Python first: Spark's script starts the `python3` that it finds.

    Its workers wait 15 s for an answer of the JVM otherwise, which a busy machine exceeds.
    """
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    options = {"SPARK_AUTH_SOCKET_TIMEOUT": str(TIMEOUT), "JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)}
    return {**os.environ, "PATH": path, **options}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = command
    return subprocess.run(
        [str(PROGRAMS / program), *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.fixture
def make(cli: Cli, tmp_path: Path) -> Callable[..., Path]:
    """A copy of `activity` that reads a separate topic from the broker at `servers`."""

    def pipeline(topic: str, servers: str = cli.bootstrap) -> Path:
        folder = tmp_path / "clicks"
        cli.ok("pipeline", "init", str(folder), "--template", "activity")
        spec = folder / "spark-pipeline.yml"
        text = spec.read_text().replace("127.0.0.1:9092", servers)
        spec.write_text(text.replace("activity.topic: shop.activity", f"activity.topic: {topic}"))
        return folder

    return pipeline


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.extended)])
def test_sparks_own_runner_runs_the_folder_as_it_is_and_runs_it_again(
    cli: Cli, make: Callable[..., Path], times: int
) -> None:
    folder = make(f"own-runner-{times}")
    for _ in range(times):
        cli.ok("pipeline", "feed", str(folder), "--records", str(RECORDS))
        ended = run(folder, "spark-pipelines", "run")
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
        assert "Run is COMPLETED" in ended.stdout + ended.stderr


@pytest.mark.extended
def test_sparks_own_runner_runs_the_other_templates_as_they_are(cli: Cli, tmp_path: Path) -> None:
    """In one Python and one JVM, whose start is the most expensive part."""
    benches = {name: for_sparks_runner(name, tmp_path / name, cli.bootstrap) for name in OTHER_TEMPLATES}
    made = {name: bench.generate(RECORDS, per_second=2.0) for name, bench in benches.items()}
    for name, bench in benches.items():
        bench.create_inputs(*OTHER_TEMPLATES[name])
        bench.send(made[name])
    folders = [str(tmp_path / name) for name in benches]
    command = [sys.executable, "-m", "tests.cli.pipeline.run_with_spark", *folders]
    ended = subprocess.run(
        command, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=2 * TIMEOUT, check=False
    )
    output = ended.stdout + ended.stderr
    assert (ended.returncode, output.count("Run is COMPLETED")) == (0, len(folders)), output[-6000:]

    orders = Counter(record.key for record in made["enrich"] if record.topic == enrich.ORDERS)
    enriched = Counter(f"o{record.key}" for record in benches["enrich"].read("enrich.orders.enriched"))
    assert enriched == orders
    expected = Expected(stored_in(cli.bootstrap, "app.logs"))
    found = written(benches["logs"]), letters_in(benches["logs"])
    assert (len(found[0]), len(found[1])) == (len(expected.entries), len(expected.letters))
    # A minute is written when it is closed.
    services = benches["operations"].latest("operations.services").values()
    assert 0 < sum(row["reports"] for row in services) <= RECORDS
    table = pyarrow.dataset.dataset(
        tmp_path / "warehouse" / "storage" / "warehouse" / "events", format="parquet", partitioning="hive"
    ).to_table()
    keys = Counter(str(record.key).encode() for record in made["warehouse"])
    assert Counter(table["key"].to_pylist()) == keys


def for_sparks_runner(name: str, folder: Path, servers: str) -> Workbench:
    """That runner takes settings only from the file, so the broker is set there."""
    bench = Workbench(name, folder, servers)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text().replace("127.0.0.1:9092", servers)
    spec.write_text(text.replace("shop.", f"{name}."))  # two of them read orders
    bench.reload()
    return bench


def test_own_run_continues_until_it_is_stopped(cli: Cli, make: Callable[..., Path]) -> None:
    folder = make("our-runner")
    cli.ok("pipeline", "feed", str(folder), "--records", str(RECORDS))
    command = [str(PROGRAMS / "barnabas"), "pipeline", "run", str(folder), "--continuous"]
    command += ["--set", "spark.ui.enabled=true", "--set", "spark.ui.port=0"]
    local = {**environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(command, env=local, stderr=subprocess.PIPE, text=True) as running:
        try:
            until(
                lambda: rows_of_traffic(cli, folder) >= RECORDS,
                "the run has not read all records",
                TIMEOUT,
                every=0.5,
                meanwhile=still_running(running, "the run has ended by itself"),
            )
            second = run(folder, "barnabas", "pipeline", "run")
            assert (second.returncode, second.stdout) == (1, "")
            assert f"Error: activity runs already, in process {running.pid}:" in second.stderr
            assert "Starting Spark" not in second.stderr
            assert cli.ok("pipeline", "status", str(folder), "-o", "json").json["process"] == running.pid
            running.send_signal(signal.SIGTERM)
            _, output = running.communicate(timeout=TIMEOUT)
        finally:
            running.kill()
    assert (running.returncode, "flows are done" in output) == (0, True), output
    assert "Spark's UI is at http://" in output
    assert cli.ok("pipeline", "status", str(folder), "-o", "json").json["state"] == "stopped"


def rows_of_traffic(cli: Cli, folder: Path) -> int:
    status = cli.ok("pipeline", "status", str(folder), "-o", "json").json
    return 0 if status is None else sum(row["rows"] for row in status["flows"] if row["name"] == "traffic")


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        (None, "The pipeline reads the topic not-there, which does not exist at"),
        ("127.0.0.1:1", "No broker answers at 127.0.0.1:1."),
    ],
)
def test_unreadable_pipeline_input_is_reported(
    cli: Cli, make: Callable[..., Path], servers: str | None, sentence: str
) -> None:
    folder = make("not-there", servers or cli.bootstrap)
    ended = run(folder, "barnabas", "pipeline", "run", "--master", "local[1]")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"\nError: {sentence}" in f"\n{ended.stderr}"
    assert ("Starting Spark" in ended.stderr) == (servers is None)  # a broker that is away is noticed before
    assert not (folder / "storage").exists()
