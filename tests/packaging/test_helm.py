"""The Helm chart: accepted by `helm lint`, its output by the schemas of the oldest and the newest Kubernetes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from barnabas import __version__
from barnabas.config.broker import BrokerConfig
from barnabas.config.environment import read_environment
from barnabas.config.properties import parse_properties
from tests.support.programs import PROJECT_ROOT

CHART = PROJECT_ROOT / "packaging/helm/barnabas"
PROGRAMS = PROJECT_ROOT / ".cache/packaging/bin"
# Of the package kubernetes-validate (requirements/packaging.txt).
SCHEMAS = PROJECT_ROOT / ".cache/packaging/python/kubernetes_validate/kubernetes-json-schema"
VERSIONS = ("1.28.0", "1.37.0")
CLUSTER = ("--set", "replicas=3", "--set", "zookeeper.connect=zk:2181/barnabas")
DEFINITIONS = "/api/_definitions.json"


def test_the_chart_has_the_version_of_the_broker() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_every_value_has_a_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


needs_helm = pytest.mark.extended


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm") or shutil.which("helm", path=str(PROGRAMS))
    if program is None:
        pytest.skip("needs helm: make packages-install")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def rendered(*options: str) -> list[dict[str, Any]]:
    output = helm("template", "demo", str(CHART), "--namespace", "shop", "--kube-version", "1.34.0", *options)
    assert output.returncode == 0, output.stderr
    return [document for document in yaml.safe_load_all(output.stdout) if document]


@needs_helm
@pytest.mark.parametrize("options", [(), CLUSTER], ids=["one broker", "cluster"])
def test_helm_lint_has_no_complaint(options: tuple[str, ...]) -> None:
    linted = helm("lint", "--strict", "--kube-version", "1.34.0", str(CHART), *options)
    assert linted.returncode == 0, linted.stdout
    assert "WARNING" not in linted.stdout


@needs_helm
@pytest.mark.parametrize("version", VERSIONS)
def test_kubeconform_accepts_the_output(version: str, tmp_path: Path) -> None:
    documents = rendered() + rendered(*CLUSTER)
    assert kubeconform(documents, version, tmp_path) == ""
    documents[-1]["spec"]["unknown"] = 1
    assert "additional properties 'unknown' not allowed" in kubeconform(documents, version, tmp_path)


def kubeconform(documents: list[dict[str, Any]], version: str, folder: Path) -> str:
    """The complaints about documents."""
    program = shutil.which("kubeconform") or shutil.which("kubeconform", path=str(PROGRAMS))
    if program is None or not SCHEMAS.exists():
        pytest.skip("needs kubeconform and its schemas: make packages-install packages")
    write_schemas(documents, version, folder)
    location = str(folder / "{{.ResourceKind}}{{.KindSuffix}}.json")
    checked = subprocess.run(
        [program, "-strict", "-kubernetes-version", version, "-schema-location", location, "-"],
        input="\n---\n".join(map(json.dumps, documents)),
        capture_output=True,
        text=True,
        check=False,
    )
    return checked.stdout + checked.stderr


def write_schemas(documents: list[dict[str, Any]], version: str, folder: Path) -> None:
    """Self-contained schemas: kubeconform does not resolve references to other files."""
    source = SCHEMAS / f"v{version}-local-strict"
    definitions = (source / "_definitions.json").read_text().replace(DEFINITIONS, "")
    for document in documents:
        name = f"{document['kind']}-{document['apiVersion'].replace('/', '-')}.json".lower()
        schema = json.loads((source / name).read_text().replace(DEFINITIONS, ""))
        (folder / name).write_text(json.dumps({**schema, "$defs": json.loads(definitions)["$defs"]}))


@needs_helm
def test_the_settings_of_a_pod_are_those_of_a_broker() -> None:
    documents = rendered(*CLUSTER, "--set", "config.log\\.retention\\.hours=72")
    (file,) = [each["data"]["server.properties"] for each in documents if each["kind"] == "ConfigMap"]
    (pods,) = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet"]
    known = {"POD_NAME": "demo-2", "POD_INDEX": "2"}
    for variable in pods["containers"][0]["env"]:
        if text := variable.get("value"):
            known[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: known[match[1]], text)
    properties, notices = read_environment(known)
    config = BrokerConfig.load({**parse_properties(file), **properties})
    assert not notices
    assert not config.warnings
    assert config.node_id == 2
    assert str(config.advertised_listeners[0].host) == "demo-2.demo-brokers.shop.svc.cluster.local"
    assert config["zookeeper.connect"] == "zk:2181/barnabas"


@needs_helm
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "replicas=3"), "zookeeper.connect"),
        (("--set", "config.node\\.id=3"), "is set by the chart"),
        (("--set", "replica=3"), "replica"),
    ],
)
def test_wrong_values_are_refused(options: tuple[str, ...], message: str) -> None:
    output = helm("template", "demo", str(CHART), "--kube-version", "1.34.0", *options)
    assert output.returncode != 0
    assert message in output.stderr
