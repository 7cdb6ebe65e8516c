"""Every administration route denies users without its right."""

from __future__ import annotations

import asyncio
from typing import Any

import confluent_kafka
import pytest

from barnabas.client.cluster import Client
from barnabas.client.status import STATUS_TOPIC, ProcessStatus, StatusReporter
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.needs import CHECKED, SHOWN
from barnabas.services.console.pages import cluster, route_table, topic
from barnabas.services.console.pages.cluster import dead_letters as dead
from barnabas.services.console.routes import ConsoleRoute, RouteKind
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.administration import look_anew, write
from tests.services.console.pages.limited import Limited
from tests.services.console.web import RunningConsole, Web
from tests.support.waiting import eventually

PACKAGES = (f"{topic.__name__}.", f"{cluster.__name__}.")
ROUTES = [route for route in route_table().routes if route.endpoint.__module__.startswith(PACKAGES)]
VALUES = {"topic": "theirs", "id": "1", "transactional_id": "tx", "confirm": "theirs", "topics": ["theirs"]}
FORM = {
    **VALUES, "partitions": 9, "changes": "retention.ms=1", "do": "delete", "confirm": "delete 1 topic",
    "plan": "balance", "partition": 0, "start_offset": 0,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _topics(console_broker: EmbeddedBroker) -> None:
    for name in ("theirs", "dlq.theirs"):
        console_broker.create_topic(name, partitions=1)
    write(console_broker.bootstrap_servers, "theirs", 3)


def filled(path: str) -> str:
    for name, value in VALUES.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.kind.value} {route.cluster_path}")
def test_without_a_right_nothing_is_shown_and_nothing_done(
    user: Limited, web: Web, route: ConsoleRoute
) -> None:
    path = filled(route.cluster_path)
    if route.kind is RouteKind.ACTION:
        answer = web.change(path, **FORM)
        assert answer.status == 403
        assert "it needs" in answer.json["error"]
    elif route.right is SHOWN:
        shown = web.api(path).json
        assert not any(shown.get(name) for name in ("topics", "rows", "links", "partitions"))
    elif route.right is CHECKED:
        assert web.api(path, **VALUES).status == 403
    else:
        assert web.api(path).status == 403


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if each.right.all_of],
    ids=lambda route: f"{route.kind.value} {route.cluster_path}",
)
def test_each_right_of_a_route_is_needed(user: Limited, web: Web, route: ConsoleRoute) -> None:
    needed = [need.action(VALUES) for need in route.right.all_of]
    for missing in needed:
        user.rights = set(needed) - {missing}
        answer = (
            web.change(filled(route.cluster_path), **FORM)
            if route.kind is RouteKind.ACTION
            else web.api(filled(route.cluster_path))
        )
        assert answer.status == 403


def test_list_has_the_resources_that_the_user_may_describe(
    user: Limited, web: Web, console: RunningConsole
) -> None:
    look_anew(console)
    user.rights = {Action(Operation.DESCRIBE, ResourceType.TOPIC, "dlq.theirs")}
    assert [row["topic"] for row in web.api("/dead").json["topics"]] == ["dlq.theirs"]


def test_a_broker_names_the_topics_that_one_may_describe(
    user: Limited, web: Web, console_broker: EmbeddedBroker
) -> None:
    for name in ("seen.on-broker", "hidden.on-broker"):
        console_broker.create_topic(name, partitions=1)
    see_cluster = Action(Operation.DESCRIBE, ResourceType.CLUSTER)
    user.rights = {see_cluster, Action(Operation.DESCRIBE, ResourceType.TOPIC, "seen.on-broker")}
    page = web.api("/brokers/1").json
    assert [row["topic"] for row in page["largest"]] == ["seen.on-broker"]
    assert page["log_dirs"]


def test_a_redrive_needs_the_topics_that_it_writes_to(
    user: Limited, web: Web, console: RunningConsole
) -> None:
    read = {
        Action(Operation.READ, ResourceType.TOPIC, "dlq.theirs"),
        Action(Operation.READ, ResourceType.GROUP, "barnabas-redrive-dlq.theirs"),
    }
    bootstrap = console.server.clusters["default"].settings.bootstrap
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    headers: dict[str, Any] = {"__connect.errors.topic": "theirs", "__connect.errors.exception.message": "x"}
    producer.produce("dlq.theirs", b"v", headers=headers)
    assert producer.flush(60) == 0
    for missing in read:
        user.rights = read - {missing}
        assert web.change("/dead/dlq.theirs/redrive").status == 403
    user.rights = read
    refused = web.change("/dead/dlq.theirs/redrive")
    assert refused.status == 403
    assert "WRITE on the topic theirs" in refused.json["error"]
    user.rights = {*read, Action(Operation.WRITE, ResourceType.TOPIC, "theirs")}
    assert web.change("/dead/dlq.theirs/redrive").json["sent"] == 1


def test_a_letter_that_names_a_record_of_a_topic_needs_read_on_that_topic(
    user: Limited, web: Web, console_broker: EmbeddedBroker
) -> None:
    """Otherwise a forged dead letter could make the console copy any record."""
    for name in ("dlq.forged", "mine.copies"):
        console_broker.create_topic(name, partitions=1)
    producer = confluent_kafka.Producer({"bootstrap.servers": console_broker.bootstrap_servers})
    names = ("__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset")
    producer.produce("dlq.forged", None, headers=dict(zip(names, ("theirs", "0", "1"), strict=True)))
    assert producer.flush(60) == 0
    user.rights = {
        Action(Operation.READ, ResourceType.TOPIC, "dlq.forged"),
        Action(Operation.READ, ResourceType.GROUP, "barnabas-redrive-dlq.forged"),
        Action(Operation.WRITE, ResourceType.TOPIC, "mine.copies"),
    }
    refused = web.change("/dead/dlq.forged/redrive", to="mine.copies")
    assert refused.status == 403
    assert "READ on the topic theirs" in refused.json["error"]
    user.rights.add(Action(Operation.READ, ResourceType.TOPIC, "theirs"))
    assert web.change("/dead/dlq.forged/redrive", to="mine.copies").json["sent"] == 1


def test_dead_letters_too_large_for_memory_are_read_in_parts(
    user: Limited, web: Web, console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead, "MAX_BYTES", 1 << 20)
    console_broker.create_topic("dlq.large", partitions=1)
    producer = confluent_kafka.Producer({"bootstrap.servers": console_broker.bootstrap_servers})
    for _ in range(12):
        producer.produce("dlq.large", bytes(900_000), headers={"__connect.errors.topic": "theirs"})
        producer.flush(60)
    user.rights = {
        Action(Operation.READ, ResourceType.TOPIC, "dlq.large"),
        Action(Operation.READ, ResourceType.GROUP, "barnabas-redrive-dlq.large"),
    }
    page = web.api("/dead/dlq.large").json
    assert 0 < page["count"] < 12
    assert not page["is_complete"]


def test_letters_that_cannot_be_noted_as_sent_are_not_sent(
    user: Limited, web: Web, console_broker: EmbeddedBroker
) -> None:
    for name in ("dlq.mixed", "mine.mixed"):
        console_broker.create_topic(name, partitions=1)
    producer = confluent_kafka.Producer({"bootstrap.servers": console_broker.bootstrap_servers})
    for number in range(2400):
        reason = "__connect.errors.exception.message"
        headers: dict[str, str | bytes | None] = {"__connect.errors.topic": "mine.mixed"}
        headers[reason] = "odd" if number % 2 else "even"
        producer.produce("dlq.mixed", b"v", headers=headers)
    assert producer.flush(60) == 0
    user.rights = {
        Action(Operation.READ, ResourceType.TOPIC, "dlq.mixed"),
        Action(Operation.READ, ResourceType.GROUP, "barnabas-redrive-dlq.mixed"),
        Action(Operation.WRITE, ResourceType.TOPIC, "mine.mixed"),
    }
    refused = web.change("/dead/dlq.mixed/redrive", where=["reason=odd"])
    assert (refused.status, "older ones first" in refused.json["error"]) == (400, True)
    assert web.api("/dead/dlq.mixed").json["count"] == 2400
    assert web.change("/dead/dlq.mixed/redrive").json["sent"] == 2400


def test_a_transaction_shows_the_partitions_of_topics_that_one_may_describe(
    user: Limited, web: Web, console_broker: EmbeddedBroker
) -> None:
    settings = {"bootstrap.servers": console_broker.bootstrap_servers, "transactional.id": "their-tx"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("theirs", b"v")
    assert producer.flush(60) == 0
    user.rights = {Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "their-tx")}
    assert web.api("/transactions/their-tx").json["partitions"] == []
    user.rights.add(Action(Operation.DESCRIBE, ResourceType.TOPIC, "theirs"))
    assert web.api("/transactions/their-tx").json["partitions"] == ["theirs-0"]
    producer.abort_transaction(60)


def test_mirror_processes_are_shown_to_users_who_may_read_their_reports(
    user: Limited, web: Web, console_broker: EmbeddedBroker
) -> None:
    async def report() -> None:
        async with Client(console_broker.bootstrap_servers) as client:
            await StatusReporter(client, lambda: ProcessStatus("mirror", "west", "running")).report()

    asyncio.run(report())
    user.rights = set()
    assert web.api("/mirrors").json["links"] == []
    user.rights = {Action(Operation.READ, ResourceType.TOPIC, STATUS_TOPIC)}
    assert [link["name"] for link in web.api("/mirrors").json["links"]] == ["west"]


def test_a_topic_can_be_created_with_the_right_on_it_alone(user: Limited, web: Web) -> None:
    user.rights = {Action(Operation.CREATE, ResourceType.TOPIC, "mine")}
    assert web.change("/create-topic", topic="others").status == 403
    assert web.change("/create-topic", topic="mine", partitions=1).status == 200
    user.rights = {Action(Operation.DESCRIBE, ResourceType.TOPIC, "mine")}
    page = eventually(lambda: web.api("/topics/mine"), lambda answer: answer.status == 200).json
    assert page["may"] == dict.fromkeys(("read", "write", "alter", "delete", "see_configs"), False)
    assert "Delete the topic" not in web.get("/topics/mine").text
