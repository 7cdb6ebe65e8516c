"""Master, Python and Spark home of a session, and errors before Spark starts."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from barnabas.pipelines.running.sessions import pipeline_session
from barnabas.spark.deployment import (
    Deployment,
    deployment_of,
    require_reachable,
    require_supported_spark,
)
from barnabas.spark.errors import PipelineError
from tests.support.programs import free_port

VARIABLES = (
    "SPARK_REMOTE",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "MASTER",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_configuration_spark_runs_locally() -> None:
    found = deployment_of(None, {})
    assert found.master == "local[*]"
    assert found.is_local
    assert not found.is_submitted


def test_the_file_of_spark_names_the_master_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.master  spark://node:7077\nspark.sql.shuffle.partitions=64 \n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = deployment_of(None, {})
    assert found.master == "spark://node:7077"
    assert not found.is_local
    assert found.given["spark.sql.shuffle.partitions"] == "64"


@pytest.mark.parametrize(
    ("master", "settings", "environment", "expected"),
    [
        ("local[3]", {"spark.master": "yarn"}, {"MASTER": "yarn"}, ("local[3]", "")),
        (None, {"spark.master": "local[3]"}, {"SPARK_REMOTE": "sc://node"}, ("local[3]", "")),
        (None, {}, {"SPARK_REMOTE": "sc://node", "MASTER": "yarn"}, ("", "sc://node")),
        (None, {"spark.remote": "sc://other"}, {"SPARK_REMOTE": "sc://node"}, ("", "sc://other")),
        (None, {}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell", "MASTER": "local"}, ("yarn", "")),
        (None, {}, {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}, ("yarn", "")),
        (None, {}, {"MASTER": "spark://node:7077"}, ("spark://node:7077", "")),
    ],
)
def test_the_callers_choice_precedes_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    master: str | None,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    expected: tuple[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = deployment_of(master, settings)
    assert (found.master, found.remote) == expected


@pytest.mark.parametrize("version", ["3.5.1", "4.1.0", "4.4.0", "5.0.0"])
def test_an_unsupported_spark_is_named(version: str) -> None:
    with pytest.raises(PipelineError, match=rf"Spark 4.2 and 4.3, and this is Spark {version}"):
        require_supported_spark(version)
    require_supported_spark("4.2.0")
    require_supported_spark("4.3.1.dev0")


@pytest.mark.parametrize("kind", ["spark://{}", "k8s://https://{}", "sc://{}/;token=x"])
def test_a_master_that_does_not_answer_is_named_before_spark_starts(kind: str) -> None:
    url = kind.format(f"127.0.0.1:{free_port()}")
    with pytest.raises(PipelineError, match=r"No Spark master answers at .*refused"):
        require_reachable(_to(url))


def test_yarn_needs_its_configuration_and_a_resource_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        require_reachable(_to("yarn"))
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.address</name>"
        f"<value>{address}</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(PipelineError, match=f"No ResourceManager of YARN answers at {address}"):
        require_reachable(_to("yarn"))


def test_invalid_master_is_an_error_in_one_line() -> None:
    with pytest.raises(PipelineError, match="Not a valid master: 'spark://node:port'"):
        require_reachable(_to("spark://node:port"))


def test_connectors_and_spark_connect_are_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://node")
    sentence = (
        r"Connectors need a driver with a JVM, and Spark Connect \(sc://node\) has none: unset SPARK_REMOTE"
    )
    with pytest.raises(PipelineError, match=sentence), pipeline_session("orders", {}):
        pass


def test_a_spark_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: SparkSession.Builder) -> SparkSession:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", failing)
    sentence = "Spark did not start with the master mesos://node"
    with pytest.raises(PipelineError, match=sentence), pipeline_session("x", {}, master="mesos://node"):
        pass


SESSION = """
    import os, sys
    from barnabas.spark import session_builder
    spark = session_builder("submitted").getOrCreate()
    conf = spark.sparkContext.getConf()
    print("RESULT", spark.sparkContext.master, conf.get("spark.sql.shuffle.partitions"), conf.get("spark.ui.enabled"))
"""


def test_spark_submit_decides_master_and_settings(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SESSION))
    submit = Path(sys.executable).with_name("spark-submit")
    arguments = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=9"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", *VARIABLES)
    }
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [submit, *arguments, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "RESULT local[1] 9 false" in done.stdout, done.stderr[-3000:]


def _to(url: str) -> Deployment:
    is_remote = url.startswith("sc:")
    return Deployment("" if is_remote else url, url if is_remote else "", {}, is_submitted=False)
