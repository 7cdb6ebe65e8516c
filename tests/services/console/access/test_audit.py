"""The console's audit log after a crash, after a rotation and in a topic; and that of the brokers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.common.types import TopicPartition
from barnabas.security.authz.audit import AuditFile, lines_of
from barnabas.services.console.access.audit import FILE, ConsoleAudit
from barnabas.services.console.access.model import AccessSettings, AuditSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import Web, running_console
from tests.support.waiting import until

SMALL = AuditSettings(max_bytes=400, files=3)


def logins(folder: Path, count: int) -> ConsoleAudit:
    async def write() -> ConsoleAudit:
        audit = ConsoleAudit(folder, SMALL)
        for number in range(count):
            await audit.logged_in("127.0.0.1", f"user{number}", "PASSWORD", True)
        return audit

    return asyncio.run(write())


def test_the_newest_events_come_first_also_out_of_older_files(tmp_path: Path) -> None:
    audit = logins(tmp_path, 4)
    found = [event["principal"] for event in asyncio.run(audit.newest())]

    assert (tmp_path / f"{FILE}.1").exists()
    assert found == [f"User:user{number}" for number in (3, 2, 1, 0)][: len(found)]
    assert len(found) >= 3


def test_files_are_bounded_in_length_and_number(tmp_path: Path) -> None:
    logins(tmp_path, 30)

    files = list(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 400 for file in files)


def test_a_line_that_a_crash_cut_off_is_passed_over(tmp_path: Path) -> None:
    audit = logins(tmp_path, 1)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"event": "requ')

    assert [event["event"] for event in asyncio.run(audit.newest())] == ["login"]
    AuditFile(tmp_path / FILE, 1 << 20, 1).write(lines_of([{"event": "next"}]))
    assert [event["event"] for event in asyncio.run(audit.newest())] == ["next", "login"]


def test_unfinished_change_is_reported_as_interrupted(console_broker: EmbeddedBroker, tmp_path: Path) -> None:
    event = {
        "time": "2026-11-17T00:00:00",
        "event": "request",
        "id": "1",
        "cluster": "default",
        "state": "begun",
    }
    (tmp_path / FILE).write_text(json.dumps({**event, "api": "POST /x", "allowed": True}) + "\n")
    with running_console(console_broker.bootstrap_servers, tmp_path) as console, console.web() as web:
        [shown] = web.ask("GET", "/api/v1/audit").json["events"]

    assert shown["outcome"] == "cut off"


def test_events_are_copied_to_a_topic(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("console-audit")
        access = AccessSettings(audit=AuditSettings(topic="console-audit"))
        with (
            running_console(broker.bootstrap_servers, tmp_path, access=access) as console,
            console.web() as web,
        ):
            web.change("/access/quotas", user="u", limit="producer_byte_rate", value=1000)
        values = asyncio.run(read(broker.bootstrap_servers, TopicPartition("console-audit", 0), 2))

    assert [json.loads(value)["state"] for value in values] == ["begun", "done"]


async def read(bootstrap: str, partition: TopicPartition, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with Client(bootstrap) as client, Consumer(client, {partition: 0}) as consumer:
        while len(found) < count:
            found += [record.value or b"" for record in await consumer.poll(30)]
    return found


def test_a_topic_that_is_not_there_holds_no_change_up(console_broker: EmbeddedBroker, tmp_path: Path) -> None:
    access = AccessSettings(audit=AuditSettings(topic="nowhere"))
    with (
        running_console(console_broker.bootstrap_servers, tmp_path, access=access) as console,
        console.web() as web,
    ):
        answer = web.change("/access/quotas", user="u", limit="consumer_byte_rate", value=1000)

    assert answer.status == 200
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 2


def test_own_records_of_brokers_are_shown(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "barnabas.audit.topic.enable": "true",
    }
    with (
        EmbeddedBroker(settings) as broker,
        running_console(broker.bootstrap_servers, tmp_path) as console,
        console.web() as web,
    ):
        broker.create_topic("watched")
        found = until_shown(web, "watched")

    assert "watched" in found["resource"]
    assert found["outcome"] == "allowed"


def until_shown(web: Web, name: str) -> dict[str, str]:
    event: dict[str, str] = until(lambda: web.api("/audit", q=name).json["events"])[0]
    return event


def test_brokers_without_an_audit_topic_are_reported(console_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with running_console(console_broker.bootstrap_servers, tmp_path) as console, console.web() as web:
        assert "barnabas.audit.topic.enable=true" in web.api("/audit").json["missing"]
