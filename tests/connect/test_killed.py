"""`barnabas connect run` is killed (kill -9) between every two steps of a merge: no row is lost or duplicated."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from examples.demo.pipelines import SHORT_LIVED
from tests.connect.support import connector, run_once
from tests.connect.test_jdbc_sink import STEPS
from tests.support.cli import Cli
from tests.support.databases.postgres import PostgresServer
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.jars import connect_jars, requires_connect_jars
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(600), requires_connect_jars]

DEADLINE = 300.0


def declaration(step: str, folder: Path, url: str) -> str:
    return f"""
name: {step}
from: {{files: {{path: {folder}/inbox, schema: "id BIGINT", max_files: 1}}}}
to: {{jdbc: {{url: "{url}", user: postgres, table: t_{step}}}}}
configuration: {{spark.jars: "{",".join(map(str, connect_jars()))}", spark.driver.memory: 1g}}
"""


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[None]:
    """Killed at the end, with its JVM and its workers."""
    command = [sys.executable, "-m", "tests.connect.stuck", str(folder), *arguments]
    with (folder / "log").open("wb") as log:
        environment = os.environ | {"JDK_JAVA_OPTIONS": " ".join(SHORT_LIVED)}
        process = subprocess.Popen(
            command, cwd=PROJECT_ROOT, stdout=log, stderr=log, start_new_session=True, env=environment
        )
    try:
        yield
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_run_killed_between_any_two_steps_continues(
    spark: SparkSession, broker: EmbeddedBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    cli = Cli(broker.bootstrap_servers)
    postgres.new_database(tmp_path.name)
    url, servers = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{tmp_path.name}", broker.bootstrap_servers
    (tmp_path / "inbox").mkdir()
    for number in range(3):
        lines = [json.dumps({"id": 3 * number + place}) for place in range(3)]
        (tmp_path / "inbox" / f"{number}.json").write_text("\n".join(lines))
    declared = [
        connector(tmp_path / step, declaration(step, tmp_path, url), servers, f"{step}.yml") for step in STEPS
    ]
    flags = tmp_path / "flags"
    flags.mkdir()
    with running(flags, *(str(one.path) for one in declared), "--bootstrap-server", servers):
        until(
            lambda: all((flags / step).exists() for step in STEPS),
            lambda: (flags / "log").read_text()[-3000:],
            seconds=DEADLINE,
        )
        seen = json.loads(cli.ok("connect", "status", "-b", servers, "-o", "json").out)
        assert {one["connector"]: one["state"] for one in seen} == dict.fromkeys(STEPS, "running")
        refused = cli("connect", "offsets", str(declared[0].path), "--set", "t:0=0")
        assert refused.code == 1
        assert "stop it first" in refused.err
    for one in declared:
        run_once(one, spark)
    with postgres.connect(tmp_path.name) as connection:
        for step in STEPS:
            found = connection.execute(f"SELECT id FROM t_{step} ORDER BY id").fetchall()
            assert [row[0] for row in found] == list(range(9)), step
            left = connection.execute(f"SELECT count(*) FROM barnabas_stage_{step}").fetchone()
            assert left == (0,)
