"""Kubernetes: spark-submit creates the driver's pod, which creates those of the executors (`make spark-clusters`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.spark.test_standalone import pipeline_in
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.jars import requires_kubernetes
from tests.support.spark.kubernetes import ContainerFile, Kubernetes, Pod
from tests.support.spark.page import pasted, run_pasted
from tests.support.spark.reading import produce
from tests.support.topics import read_committed
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200), requires_kubernetes]

SECONDS = 800.0
IMAGE = "REGISTRY/clicks"
EXECUTORS = 2
SETTINGS = {
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.executor.instances": str(EXECUTORS),
    "spark.kubernetes.executor.deleteOnTermination": "false",
}
VALUES = [b"%d" % number for number in range(300)]


def test_the_lines_of_the_documentation_run_a_pipeline_in_pods(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        produce(broker.bootstrap_servers, source, VALUES)
        folder = pipeline_in(tmp_path / "shipped", broker.bootstrap_servers, source, target)
        image = ContainerFile(PROJECT_ROOT / "examples/kubernetes/Containerfile", {"clicks": folder})
        with Kubernetes(tmp_path / "cluster", image) as cluster:
            lines = pasted("Kubernetes", 1, {"https://HOST:6443": cluster.url})
            settings = {**SETTINGS, "spark.kubernetes.driver.master": cluster.url}
            done = run_pasted(lines, tmp_path, SECONDS, {"KUBECONFIG": "/dev/null"}, settings)
            assert done.returncode == 0, done.stderr[-4000:] + cluster.logs()
            [driver] = cluster.pods_of("driver")
            until(lambda: cluster.phase(driver) in ("Succeeded", "Failed"), cluster.logs, SECONDS)
            assert cluster.phase(driver) == "Succeeded", cluster.logs()
            executors = cluster.pods_of("executor")
        found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(VALUES)
    _check_driver(driver)
    assert len(executors) == EXECUTORS
    for pod in executors:
        _check_executor(pod, driver)


def _check_driver(pod: Pod) -> None:
    container = pod["spec"]["containers"][0]
    assert container["image"] == IMAGE
    assert container["args"][0] == "driver"
    assert container["args"][-4:] == ["local:///opt/run.py", "pipeline", "run", "/opt/clicks"]
    assert pod["spec"]["serviceAccountName"] == "spark"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["labels"]["spark-app-name"] == "clicks"


def _check_executor(pod: Pod, driver: Pod) -> None:
    container = pod["spec"]["containers"][0]
    assert container["image"] == IMAGE
    assert container["args"] == ["executor"]
    assert container["resources"]["requests"]["cpu"] == "1"
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", driver["metadata"]["name"])
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["SPARK_APPLICATION_ID"] == driver["metadata"]["labels"]["spark-app-selector"]
