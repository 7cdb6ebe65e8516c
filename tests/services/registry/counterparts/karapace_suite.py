"""Karapace's test suite against Karapace and against our registry.

    python -m tests.services.registry.counterparts.karapace_suite CHECKOUT PYTHON RESULT.json [FILE ...]

CHECKOUT is a checkout of Karapace, PYTHON a Python with its dependencies and its Go library (docs/proof/registry.md
says how both were made). Each file gets a new broker, and a registry of its own or the Karapace that its tests start.
A test that fails against ours runs again alone, on a new registry: many count ids from 1, or share subjects.
RESULT.json has `{"test": {"karapace": "passed", "barnabas": "failed", "alone": "passed"}}`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterable
from pathlib import Path

from barnabas.testing import EmbeddedBroker

FOLDER = "tests/integration"
FILES = (
    "test_schema.py",
    "test_schema_protobuf.py",
    "test_jsonschema.py",
    "test_schema_compatibility.py",
    "test_schema_avro_references.py",
    "test_schema_registry_mode.py",
    "test_dependencies_compatibility_protobuf.py",
    "test_client.py",
    "test_client_protobuf.py",
)
SECONDS = 7200  # each test of Karapace starts one

Outcomes = dict[str, str]


def main() -> int:
    checkout, python, target = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    found: dict[str, Outcomes] = json.loads(target.read_text()) if target.exists() else {}
    for file in sys.argv[4:] or FILES:
        found |= both(checkout, python, file)
        target.write_text(json.dumps(found, indent=1, sort_keys=True))
        sys.stdout.write(f"{file}: {summary(one for name, one in found.items() if name.startswith(file))}\n")
        sys.stdout.flush()
    return 0


def both(checkout: Path, python: str, file: str) -> dict[str, Outcomes]:
    expected = run(checkout, python, [f"{FOLDER}/{file}"], ours=False)
    ours = run(checkout, python, [f"{FOLDER}/{file}"], ours=True)
    found: dict[str, Outcomes] = {}
    for test in sorted({*expected, *ours}):
        found[test] = {"karapace": expected.get(test, "absent"), "barnabas": ours.get(test, "absent")}
        if found[test]["barnabas"] != "passed" and found[test]["karapace"] == "passed":
            alone = run(checkout, python, [f"{FOLDER}/{test}"], ours=True)
            found[test]["alone"] = alone.get(test, "absent")
    return found


def run(checkout: Path, python: str, tests: list[str], *, ours: bool) -> Outcomes:
    """By the names of tests: passed, failed or skipped."""
    with (
        EmbeddedBroker({"auto.create.topics.enable": "true"}, registry=ours) as broker,
        tempfile.TemporaryDirectory() as folder,
    ):
        report = Path(folder) / "report.xml"
        where = ["--kafka-bootstrap-servers", broker.bootstrap_servers]
        if ours:
            where += ["--registry-url", broker.registry_url]
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-o",
            "addopts=",
            "--import-mode=importlib",
            "-p",
            "no:randomly",
        ]
        command += ["--timeout", "120", "--junitxml", str(report), *where, *tests]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(
            command, cwd=checkout, env=environment, timeout=SECONDS, check=False, stdout=subprocess.DEVNULL
        )
        return outcomes_of(report)


def outcomes_of(report: Path) -> Outcomes:
    found: Outcomes = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").rpartition(".")[2]
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcome = "skipped" if kinds == {"skipped"} else "failed" if kinds else "passed"
        found[f"{file}.py::{case.get('name')}"] = outcome
    return found


def summary(outcomes: Iterable[Outcomes]) -> str:
    all_of = list(outcomes)
    expected = [one for one in all_of if one["karapace"] == "passed"]
    here = [one for one in expected if "passed" in (one["barnabas"], one.get("alone"))]
    return f"{len(all_of)} tests, Karapace passes {len(expected)}, of these we pass {len(here)}"


if __name__ == "__main__":
    sys.exit(main())
