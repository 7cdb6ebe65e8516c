"""`barnabas ingest run` and `status`: several sources in one process, metrics and status."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from barnabas.client import status as reports
from barnabas.testing import EmbeddedBroker
from tests.services.ingest.processes import DEADLINE, IngestProcess, read_committed
from tests.support.cli import Cli
from tests.support.waiting import eventually

Rows = list[dict[str, Any]]


@pytest.fixture
def cli() -> Cli:
    return Cli("127.0.0.1:1")


def statuses(cli: Cli, bootstrap: str, agent: str, enough: Callable[[Rows], bool]) -> Rows:
    """The rows of one agent, as soon as they are as expected."""

    def read() -> Rows:
        found = json.loads(cli.ok("ingest", "status", "-b", bootstrap, "-o", "json").out)
        return [row for row in found if row["agent"] == agent]

    return eventually(read, enough)


def metrics(agent: IngestProcess) -> dict[str, float]:
    found = re.search(r"http://\S+/metrics", agent.said_first)
    assert found is not None, agent.said_first
    with urllib.request.urlopen(found[0], timeout=DEADLINE) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_sources_of_one_agent_fill_their_topics_and_are_reported(
    bootstrap: str, cli: Cli, tmp_path: Path
) -> None:
    logs, hosts, name = (uuid4().hex for _ in range(3))
    (tmp_path / "a.log").write_text("2026 one\n  more\n2026 two\n2026")
    (tmp_path / "b.log").write_text("x" * 5000 + "\nshort\n")
    file = tmp_path / "agent.yml"
    file.write_text(
        f"""
agent: {name}
topic: {logs}
sources:
  - files: {{paths: {tmp_path}/a.log, multiline: {{start: ^2026, timeout: 100ms}}}}
  - files: {{paths: ['{tmp_path}/b.log'], name: short, max_line_bytes: 1024, headers: {{from: b}}}}
  - host: {{topic: {hosts}, every: 300ms}}
"""
    )
    agent = IngestProcess(bootstrap, "run", str(file), "--metrics", "127.0.0.1:0")
    agent.start()
    found = read_committed(bootstrap, logs, lambda values: len(values) >= 3)
    assert sorted(found) == ["2026 one\n  more", "2026 two", "short"]
    assert len(read_committed(bootstrap, f"{logs}.dead-letters", lambda values: len(values) >= 1)) == 1
    assert json.loads(read_committed(bootstrap, hosts, lambda values: len(values) >= 1)[0])["kind"] == "host"

    shown = metrics(agent)
    assert shown['barnabas_ingest_records_total{source="files"}'] == 2
    assert shown['barnabas_ingest_dead_letters_total{source="short"}'] == 1
    assert shown['barnabas_ingest_lag_bytes{source="files"}'] == 4
    assert shown['barnabas_ingest_files{source="files"}'] == 1
    assert shown["barnabas_ingest_transactions_total"] >= 1
    assert shown["process_resident_memory_bytes"] > 0

    rows = statuses(cli, bootstrap, name, lambda rows: bool(rows) and rows[0]["records"] == 2)
    by_source = {row["source"]: row for row in rows}
    assert {row["state"] for row in rows} == {"running"}
    assert by_source["files"]["files"] == 1
    assert by_source["files"]["lag"] == 4
    assert by_source["short"]["dead_letters"] == 1
    assert by_source["files"]["last_commit"] > 0
    table = cli.ok("ingest", "status", "-b", bootstrap).out
    assert re.search(rf"{name}\s+short\s+running", table)

    assert agent.stop()[0] == 0
    rows = statuses(cli, bootstrap, name, lambda rows: rows[0]["state"] == "stopped")
    assert {row["state"] for row in rows} == {"stopped"}
    cli.ok("ingest", "status", "--forget", name, "-b", bootstrap)
    assert statuses(cli, bootstrap, name, lambda rows: not rows) == []


def test_an_agent_that_was_killed_is_lost(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        assert "No agent has reported yet" in cli.ok("ingest", "status", "-b", servers).err
        agent = IngestProcess(servers, "files", str(tmp_path / "*.log"), "-t", "logs", "--agent", "a")
        agent.start()
        assert statuses(cli, servers, "a", lambda rows: bool(rows) and rows[0]["state"] == "running")
        agent.kill()
        monkeypatch.setattr(reports, "LOST_AFTER", 0.01)  # without waiting for three reports
        assert {row["state"] for row in statuses(cli, servers, "a", lambda rows: True)} == {"lost"}


def test_check_reports_errors_without_a_broker(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "agent.yml"
    file.write_text("topic: logs\nsources:\n  - files: {paths: [/var/log/x.log]}\n")
    good = cli.ok("ingest", "run", str(file), "--check", "--agent", "me", "-b", "127.0.0.1:1", "-o", "json")
    assert json.loads(good.out) == {
        "agent": "me",
        "sources": [{"source": "files", "kind": "files", "topics": ["logs", "logs.dead-letters"]}],
    }
    file.write_text("topic: logs\nsources:\n  - files: {path: [/var/log/x.log]}\n")
    bad = cli("ingest", "run", str(file), "--check")
    assert bad.code == 1
    assert f"{file}, line 3: unknown key `path`; did you mean `paths`?" in bad.err


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    """Only `boss` may do anything."""
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    settings["super.users"] = "User:boss"
    users = {"boss": "secret", "guest": "secret"}
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=users) as broker:
        broker.create_topic(reports.STATUS_TOPIC)
        yield broker


@pytest.mark.parametrize(
    "command", [("status",), ("files", "x.log", "-t", "t"), ("host", "-t", "t"), ("run", "agent.yml")]
)
def test_actions_are_denied_without_the_required_right(
    cli: Cli,
    guarded: EmbeddedBroker,
    tmp_path: Path,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agent.yml").write_text("topic: t\nsources: [{files: {paths: x.log}}]")
    Path("guest.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="guest" password="secret";\n'
    )
    servers = ("-b", guarded.bootstrap_servers, "--command-config", "guest.properties")
    refused = cli("ingest", *command, *servers)
    assert refused.code == 1
    assert "_AUTHORIZATION_FAILED" in refused.err
