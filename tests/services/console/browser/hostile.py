"""A cluster with hostile names, ids, keys, values and headers.

Whatever of it were taken for markup or for a script would leave a mark: `window.injected`, or an element of the class
`injected`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from barnabas.client.schemas import Schema, SchemaClient
from barnabas.client.status import STATUS_TOPIC, TOPIC_SETTINGS, ProcessStatus, StatusPart
from barnabas.records.delays import OFFSET_HEADER, PARTITION_HEADER, REASON_HEADER, TOPIC_HEADER
from barnabas.testing import EmbeddedBroker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TIMEOUT = 30.0

SCRIPT = "<script>window.injected = 1</script>"
IMAGE = '"\'><img class=injected src=x onerror="window.injected = 1">'
LINK = "javascript:window.injected=1"
TEMPLATE = "{{ 7 * 191 }}${7 * 191}"
BACKWARDS = "\u202egnp.exe\u202c \u0645\u0631\u062d\u0628\u0627"
CONTROLS = "bell \x07 null \x00 escape \x1b[31m new\nline"
PATHS = "a/b?c=d#e%2F..&f=+g"

ORDERS, HOSTILE = "orders", "..."
LONG = "x" * 249
# All that Kafka allows: letters, digits, dot, underscore, hyphen. Some are words of JavaScript or of paths.
LOGS, DEAD = "app.logs", "dlq.orders"
TOPICS = (ORDERS, LOGS, HOSTILE, LONG, "__proto__", "constructor", "create", "-rf", "null")
GROUPS = (SCRIPT, IMAGE, LINK, TEMPLATE, BACKWARDS, PATHS, "plain")
CLIENT = "<b class=injected>client</b>"
TEXTS = (SCRIPT, IMAGE, LINK, TEMPLATE, BACKWARDS, CONTROLS, PATHS)
BYTES = (b"\xff\xfe\x80 no UTF-8 \xc0\xaf", bytes(range(256)), b"", b"\xed\xa0\x80")
LARGE = b"<i class=injected>" * 55_000  # a little below 1 MiB, the most that a broker takes by default


@contextmanager
def hostile_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS, registry=True) as broker:
        servers = broker.bootstrap_servers
        _create_topics(servers)
        _register_schemas(broker.registry_url)
        _write_records(servers)
        with _groups(servers), _transaction(servers):
            _create_rights(servers)
            yield broker


def _create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    dead = NewTopic(DEAD, 1, config={"errors.deadletterqueue.group.enable": "true"})
    status = NewTopic(STATUS_TOPIC, 1, config=TOPIC_SETTINGS)
    topics = [*(NewTopic(name, 2) for name in TOPICS), dead, status]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT)


def _register_schemas(url: str) -> None:
    """Two versions of a subject, with a hostile name and hostile texts."""
    with SchemaClient(url) as client:
        for texts in ((SCRIPT, IMAGE), (SCRIPT, IMAGE, LINK)):
            fields = [
                {"name": f"f{at}", "type": "string", "default": "", "doc": text}
                for at, text in enumerate(texts)
            ]
            document = {"type": "record", "name": "R", "doc": TEMPLATE, "fields": fields}
            client.register(SCRIPT, Schema("AVRO", json.dumps(document)))


def _write_records(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 2_000_000})
    for number in range(300):
        order = {"id": number, "amount": number * 7 % 100 / 4, "city": ["Rome", "Oslo", "Lima"][number % 3]}
        producer.produce(ORDERS, json.dumps(order), f"customer-{number % 20}")
    for text in TEXTS:
        producer.produce(HOSTILE, text, text, headers=[(text, text.encode())])
        producer.produce(HOSTILE, json.dumps({text: [text, {text: text}]}), text)
    for data in BYTES:
        producer.produce(HOSTILE, data, data, headers=[("bytes", data), ("none", None)])
    for text in TEXTS:
        producer.produce(LOGS, f"{time.strftime('%FT%TZ', time.gmtime())} ERROR {text}", partition=0)
        origin: list[tuple[str, str | bytes | None]] = [
            (TOPIC_HEADER, ORDERS),
            (PARTITION_HEADER, "0"),
            (OFFSET_HEADER, "0"),
            (REASON_HEADER, text),
        ]
        producer.produce(DEAD, text, text, headers=origin)
    for status in _statuses():
        producer.produce(STATUS_TOPIC, msgspec.json.encode(status), status.key)
    producer.produce(HOSTILE, None, "deleted")
    producer.produce(HOSTILE, LARGE, b"large")
    assert producer.flush(TIMEOUT) == 0


def _statuses() -> list[ProcessStatus]:
    """Of a pipeline, a connector and an agent that reads log files."""
    now = int(time.time() * 1000)
    parts = [StatusPart(text, "failed", text, 7, counts={"rows": 5}, broken={text: 3}) for text in TEXTS[:3]]
    lines = [StatusPart(IMAGE, kind="files", topics=[LOGS], lag=10)]
    return [
        ProcessStatus(kind, SCRIPT, "failed", IMAGE, 1, now, now, error=IMAGE, alarms=[SCRIPT], parts=parts)
        for kind in ("pipeline", "connector", "mirror")
    ] + [ProcessStatus("agent", SCRIPT, "running", IMAGE, 1, now, now, parts=lines)]


@contextmanager
def _transaction(servers: str) -> Iterator[None]:
    """One that is open."""
    settings = {
        "transactional.id": IMAGE,
        "transaction.timeout.ms": 900_000,
    }  # the longest that brokers allow
    producer = Producer({"bootstrap.servers": servers, **settings})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(ORDERS, json.dumps({"id": 1000}))
    producer.flush(TIMEOUT)
    try:
        yield
    finally:
        producer.abort_transaction(TIMEOUT)


@contextmanager
def _groups(servers: str) -> Iterator[None]:
    """Groups with offsets and without members, and one with a member."""
    for name in GROUPS:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": name})
        offsets = [TopicPartition(topic, 0, 1) for topic in (ORDERS, HOSTILE)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
    member = Consumer({"bootstrap.servers": servers, "group.id": "members", "client.id": CLIENT})
    member.subscribe([ORDERS, HOSTILE])
    try:
        while not member.assignment():
            member.poll(0.1)
        yield
    finally:
        member.close()


def _create_rights(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    acls = [
        AclBinding(
            ResourceType.GROUP,
            name,
            ResourcePatternType.LITERAL,
            f"User:{name}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for name in GROUPS
    ]
    for future in admin.create_acls(acls).values():
        future.result(TIMEOUT)
    secret = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    changes: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(name, secret, b"secret") for name in (SCRIPT, IMAGE, "alice")
    ]
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(TIMEOUT)
