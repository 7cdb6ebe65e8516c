"""Every command and public name without optional packages: one message with the package to install, no traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from barnabas.cli.failures import EXTRAS
from barnabas.cli.main import make_app
from tests.cli.test_promises import commands
from tests.support.programs import PROJECT_ROOT
from tests.test_public_api import PUBLIC

SECONDS = 2  # then a command that streams or serves is interrupted
IMPORT_NAMES = """
import importlib, json, sys
from tests.support.run_commands import HiddenPackages

MISSING, given = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.meta_path.insert(0, HiddenPackages(MISSING))
for module, name in given:
    try:
        getattr(importlib.import_module(module), name)
        problem = ""
    except ModuleNotFoundError as error:
        problem = str(error) if error.name.split(".")[0] in MISSING else repr(error)
    print(json.dumps([[module, name], problem]))

import barnabas
from barnabas.testing import EmbeddedBroker

with EmbeddedBroker() as broker, barnabas.Producer(broker.bootstrap_servers) as producer:
    producer.send("orders", b"one").result()
    consumer = barnabas.Consumer(broker.bootstrap_servers, topics="orders", auto_offset_reset="earliest")
    for what, use in (
        ("table", lambda: barnabas.table("orders", bootstrap=broker.bootstrap_servers).to_arrow()),
        ("batches", lambda: next(consumer.batches(timeout=60))),
    ):
        try:
            use()
        except ModuleNotFoundError as error:
            print(json.dumps([["barnabas", what], str(error)]))
    consumer.close()
"""
HINT = re.compile(r"pip install .*\[\w+\]")
# Ports, files and brokers of the examples that a test cannot have.
INSTEAD = {
    "dev": "dev --listen 127.0.0.1:0 --registry 127.0.0.1:0 --console 127.0.0.1:0 --no-sample",
    "serve": "serve --data served --listen 127.0.0.1:0",
    "ingest files": "ingest files *.log --topic logs --exit-at-end",
    "ingest syslog": "ingest syslog --listen 127.0.0.1:0 --topic syslog",
    "ingest http": "ingest http --listen 127.0.0.1:0 --topic events",
    "ingest host": "ingest host --topic host.metrics --every 1s",
    "ingest statsd": "ingest statsd --listen 127.0.0.1:0 --topic metrics",
    "ingest run": "ingest run agent.yml",
    "mirror run": "mirror run --from 127.0.0.1:1 --to 127.0.0.1:1",
    "connect validate": "connect validate connector.yml",
    "connect run": "connect run connector.yml",
    "tier status": "tier status",
}
# They start processes of their own, which have the packages, or download.
NOT_HERE = {"cluster start", "zookeeper start", "zookeeper install"}
CONNECTOR = """
name: changes
source: {type: postgres, url: "postgresql://localhost/shop", tables: [orders]}
sink: {type: topic, topic: orders}
"""


def examples() -> Iterator[list[str]]:
    """The first example of each command's help, for the broker of the test."""
    for path, command in commands(typer.main.get_command(make_app())):
        name = " ".join(path)
        if name not in NOT_HERE:
            yield shlex.split(INSTEAD[name]) if name in INSTEAD else _example(command, name)


def _example(command: Any, name: str) -> list[str]:
    lines = (command.help or "").partition("Example")[2].splitlines()
    found = next((line.partition("barnabas ")[2] for line in lines[1:] if "barnabas " in line), name)
    words = shlex.split(re.split(r"\s[|<]\s", found)[0])
    while "-b" in words:
        del words[words.index("-b") : words.index("-b") + 2]
    return words


def lines_of(command: list[str], folder: Path, stdin: str = "") -> list[Any]:
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[[")]


@pytest.mark.timeout(300)
def test_every_command_runs_or_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "connector.yml").write_text(CONNECTOR)
    (tmp_path / "agent.yml").write_text("sources: []\n")
    (tmp_path / "a.log").write_text("one line\n")
    serve = ["serve", "--data", "more", "--listen", "127.0.0.1:0"]
    lacking = [
        ["sql", "select 1 from orders"],
        ["registry", "run"],
        ["connect", "validate", "connector.yml"],
        ["connect", "run", "connector.yml"],
        ["pipeline", "run", "."],
        ["pipeline", "dry-run", "."],
        ["ingest", "run", "agent.yml"],
        ["cluster", "restore", "s3://bucket/prefix", "--data", "new", "--dry-run"],
        [*serve, "--registry", "127.0.0.1:0"],
        [*serve, "--console", "127.0.0.1:0"],
        [*serve, "--zookeeper", "127.0.0.1:1/x"],
    ]
    shown = list(examples())
    specification = {
        "hidden": sorted(EXTRAS),
        "prepare": [(["topics", "create", "orders"], "")],
        "commands": [(words, SECONDS) for words in (*shown, *lacking)],
    }
    answers = lines_of(["-m", "tests.support.run_commands"], tmp_path, json.dumps(specification))
    assert len(answers) == len(shown) + len(lacking)
    for command, code, message in answers:
        assert code in (0, 1, 2, 130), (command, code, message)
        assert not re.match(r"\w+Error\(", message), (
            command,
            message,
        )  # an exception that no message explains
        if "not installed" in message or command in lacking:
            assert code in (1, 2), (command, message)
            assert HINT.search(message), (command, message)


def test_every_public_name_is_importable_or_names_the_package_that_it_lacks(tmp_path: Path) -> None:
    names = [(module, name) for module, names in PUBLIC.items() for name in names or ("__name__",)]
    arguments = [json.dumps(sorted(EXTRAS)), json.dumps(names)]
    answers = lines_of(["-c", IMPORT_NAMES, *arguments], tmp_path)
    problems = {(module, name): problem for (module, name), problem in answers if problem}
    assert len(answers) == len(names) + 2
    for (module, name), problem in problems.items():
        if module in ("barnabas", "pyspark_barnabas", "pyspark_barnabas_postgres"):
            assert HINT.search(problem), (name, problem)
        else:  # part of a pipeline: it runs on Spark, so that Spark is installed
            assert problem == "No module named 'pyspark'", (module, name, problem)
    assert {("barnabas", "table"), ("barnabas", "batches"), ("pyspark_barnabas", "DefaultSource")} <= set(
        problems
    )
