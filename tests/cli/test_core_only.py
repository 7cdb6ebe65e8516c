"""Commands without the optional packages: one sentence that names the extra to install, never a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from barnabas.cli.failures import EXTRAS

# Runs in a process where the optional packages cannot be imported, as after `pip install barnabas`.
SCRIPT = """
import importlib.abc, json, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MISSING, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.meta_path.insert(0, Missing())

from typer.testing import CliRunner
from barnabas.cli.main import make_app

for command in commands:
    ended = CliRunner().invoke(make_app(), command)
    unexpected = ended.exception is not None and not isinstance(ended.exception, SystemExit)
    print(json.dumps([command, ended.exit_code, repr(ended.exception) if unexpected else ended.stderr]))

import barnabas
try:
    barnabas.table("orders", bootstrap="127.0.0.1:1").to_arrow()
except ModuleNotFoundError as error:
    print(json.dumps([["table"], 1, str(error)]))

from barnabas.testing import EmbeddedBroker
with EmbeddedBroker() as broker:
    broker.create_topic("orders")
"""
CONNECTOR = """
name: changes
source: {type: postgres, url: "postgresql://localhost/shop", tables: [orders]}
sink: {type: topic, topic: orders}
"""


def test_every_command_that_lacks_a_package_names_the_extra(tmp_path: Path) -> None:
    connector, store = tmp_path / "changes.yml", "s3://bucket/prefix"
    connector.write_text(CONNECTOR)
    agent = tmp_path / "agent.yml"
    agent.write_text("sources: []\n")
    serve = ["serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    commands = [
        ["sql", "select 1 from orders"],
        ["console"],
        ["registry", "run"],
        ["connect", "validate", str(connector)],
        ["connect", "run", str(connector)],
        ["pipeline", "run", str(tmp_path)],
        ["pipeline", "dry-run", str(tmp_path)],
        ["ingest", "run", str(agent)],
        ["cluster", "restore", store, "--data", str(tmp_path / "new"), "--dry-run"],
        [*serve, "--registry", "127.0.0.1:0"],
        [*serve, "--console", "127.0.0.1:0"],
        [*serve, "--zookeeper", "127.0.0.1:1/x"],
    ]
    script = [sys.executable, "-c", SCRIPT, json.dumps(sorted(EXTRAS)), json.dumps(commands)]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[[")]
    assert len(answers) == len(commands) + 1
    for command, code, message in answers:
        assert code in (1, 2), (command, message)
        assert re.search(r"pip install .*\[\w+\]", message), (command, message)
        assert "Traceback" not in message
