"""Command lines in code blocks of README.md and docs/ are run against a broker; exceptions have a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_core_only import CONNECTOR
from tests.support.certificates import Authority
from tests.support.programs import PROJECT_ROOT, free_port
from tools.doc_command_lines import command_lines, words_of

# Command lines that do not run here: why, and where they do.
NOT_HERE = {
    r"zk\d?:2181": "a ZooKeeper: tests/cli/cluster/test_local_cluster.py, tests/security",
    r"^barnabas zookeeper install": "downloads: tests/cli/cluster",
    r"^barnabas cluster (start|adopt)": "a ZooKeeper: tests/cli/cluster/test_local_cluster.py",
    r"s3://": "a bucket: tests/cli/tiering and tests/cli/cluster/test_restore.py",
    r"^barnabas pipeline (run|dry-run|status|pack)": "Spark: tests/cli/pipeline",
    r"^barnabas connect (?!status)": "Spark or Kafka Connect: tests/cli/connect, tests/connect",
    r"^barnabas mirror (promote|failover|reverse)": "a mirror with records: tests/cli/mirror, tests/services/mirror",
    r"kafka1:9092|eu:9092|live:9092|old:9092": "another cluster: tests/services/mirror, tests/services/registry",
    r"tls-certificate": "certificates and ports of root: tests/services/ingest",
    r"^barnabas tokens": "the login of a user: tests/cli/access",
    r"\$receipt|receipt'\)": "a variable of the shell: tests/cli/queue",
    r"\[--|<|\w \| \w+ \w": "a synopsis, not a command line",
    r"^barnabas consume recommend\.results": "results of Spark: tests/pipelines",
    r"^barnabas queue dead show": "an offset of an example: tests/cli/queue/test_dead_letters.py",
    r"^barnabas doctor --bootstrap": "another cluster: tests/cli/test_doctor.py",
    r"barnabas topics list -b 127.0.0.1:19092": "the broker of the line above it, which has ended here",
}
# Addresses and folders that a test cannot have.
INSTEAD = (
    (r"\b(127\.0\.0\.1|0\.0\.0\.0):(?!1\b)\d+", "127.0.0.1:0"),
    (r"/var/lib/barnabas", "served"),
    (r"/tmp/suite", "suite"),
    (r"file:///history", "file://{folder}/history"),
    (r"/var/log(/app)?|/srv/app", "{folder}/lines"),
    (r"-b (HOST:PORT|new:9092)", ""),
)
STREAMING = (
    *("dev", "serve", "console", "registry run", "mirror run", "bench"),
    *("ingest files", "ingest syslog", "ingest http", "ingest host", "ingest statsd", "ingest run"),
)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "remote.log.storage.system.enable": "true",
}
PREPARE = (
    (["topics", "create", "orders", "greetings", "logs"], ""),
    (["produce", "orders"], '{"country": "DE", "amount": 12}\n'),
)
CREATE_JOBS = ["topics", "create", "jobs"]  # a separate line for commands that end


def documented() -> list[tuple[str, str]]:
    """(page, command line) of the blocks, without repetitions; proofs quote earlier measurements."""
    lines: dict[str, str] = {}
    for line in command_lines():
        is_page = line.page.startswith(("README", "docs/")) and not line.page.startswith("docs/proof")
        if line.is_block and is_page:
            lines.setdefault(line.text.partition(" ;")[0], line.page)
    return [(page, text) for text, page in lines.items()]


def reason_against(text: str) -> str | None:
    return next((reason for pattern, reason in NOT_HERE.items() if re.search(pattern, text)), None)


def words_for(text: str, folder: Path) -> list[str]:
    for pattern, instead in INSTEAD:
        text = re.sub(pattern, instead.replace("{folder}", str(folder)), text)
    words = words_of(text)
    if words[0] == "dev":
        for option in ("--listen", "--registry", "--console"):
            words += [option, f"127.0.0.1:{free_port()}"]
    if words[:2] in (["ingest", "syslog"], ["ingest", "statsd"]) and "--listen" not in words:
        words += ["--listen", "127.0.0.1:0"]
    if words[0] == "console" and "--listen" not in words:
        words += ["--listen", "127.0.0.1:0"]
    return words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the pages name."""
    for name in ("lines", "history", "store"):
        (tmp_path / name).mkdir()
    (tmp_path / "lines/a.log").write_text("2026-11-19 one line\n")
    (tmp_path / "agent.yml").write_text(
        f"sources:\n  - files: {{paths: ['{tmp_path}/lines/*.log'], topic: logs}}\n"
    )
    (tmp_path / "orders.yml").write_text(CONNECTOR)
    for name in ("admin.password", "broker.password"):
        (tmp_path / name).write_text("a-long-enough-password\n")
    (tmp_path / "resize.sh").write_text("#!/bin/sh\ncat > /dev/null\n")
    (tmp_path / "resize.sh").chmod(0o755)
    (tmp_path / "server.properties").write_text(secure_properties(tmp_path))
    return tmp_path


def secure_properties(folder: Path) -> str:
    """The complete file of docs/security.md, with its certificate."""
    signed = Authority().sign("kafka.example.org", "127.0.0.1")
    (folder / "broker.pem").write_text(signed.key_pem() + signed.certificate_pem)
    page = (PROJECT_ROOT / "docs/security.md").read_text()
    text = page.partition("```properties\n")[2].partition("```")[0]
    for shown, used in (
        ("/etc/barnabas", str(folder)),
        ("/var/lib/barnabas", "secure"),
        ("/var/log/barnabas", "."),
    ):
        text = text.replace(shown, used)
    return re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+", "127.0.0.1:0", text)


def run_documented(lines: list[tuple[str, str]], folder: Path, *, serves: bool) -> list[Any]:
    specification = {
        "settings": {**SETTINGS, "barnabas.remote.storage.url": f"file://{folder}/store"},
        "prepare": [*PREPARE, *((CREATE_JOBS, "") for _ in range(serves))],
        "commands": [(words_for(text, folder), 4 if serves else 60) for _, text in lines],
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.run_commands"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT), "XDG_STATE_HOME": str(folder / "state")},
        input=json.dumps(specification),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[[")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "serves", [False, pytest.param(True, marks=pytest.mark.extended)], ids=["ends", "serves"]
)
def test_every_command_line_of_a_code_block_runs(folder: Path, serves: bool) -> None:
    lines = [
        (page, text)
        for page, text in documented()
        if reason_against(text) is None and is_streaming(words_of(text)) == serves
    ]
    assert len(lines) > 15
    answers = run_documented(lines, folder, serves=serves)
    assert len(answers) == len(lines)
    failed = [
        f"{page}: {text}: exit code {code}: {message[-300:]}"
        for (page, text), (words, code, message) in zip(lines, answers, strict=True)
        if code
        not in (0, *((130,) if serves else ()), *((1,) if words[0] == "doctor" else ()))  # 1: findings
    ]
    assert not failed, "\n".join(failed)


def is_streaming(words: list[str]) -> bool:
    follows = words[0] == "consume" and "--exit-at-end" not in words and "--count" not in words
    return follows or words[0] in STREAMING or " ".join(words[:2]) in STREAMING or "--wait" in words


def test_every_reason_against_running_a_command_line_is_needed() -> None:
    texts = [text for _, text in documented()]
    assert [pattern for pattern in NOT_HERE if not any(re.search(pattern, text) for text in texts)] == []
