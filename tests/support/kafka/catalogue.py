"""All declared messages with Kafka's definitions."""

import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from typing import Any

from barnabas.protocol.api import OWN_API, REQUESTS, RESPONSES
from barnabas.protocol.coordinator_records import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from barnabas.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.messages.records.streams_group import TYPE as OUR_OWN_TYPE
from barnabas.protocol.schema import Field, Message
from tests.support.kafka.jars import jar, newest_client_jar

# jar -> the Java package of the classes Kafka generates from the descriptions in it
JAVA_PACKAGES = {
    "kafka-clients": "org.apache.kafka.common.message",
    "kafka-group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "kafka-transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
    "kafka-share-coordinator": "org.apache.kafka.coordinator.share.generated",
}

_RECORDS = {
    "kafka-group-coordinator": GROUP_RECORDS,
    "kafka-transaction-coordinator": TRANSACTION_RECORDS,
    "kafka-share-coordinator": SHARE_RECORDS,
}


def _messages_with_jars() -> Iterator[tuple[type[Message], str]]:
    for table in (REQUESTS, RESPONSES):
        yield from ((cls, "kafka-clients") for key, cls in table.items() if key < OWN_API)
    yield ConsumerProtocolSubscription, "kafka-clients"
    yield ConsumerProtocolAssignment, "kafka-clients"
    for artifact, types in _RECORDS.items():
        for record_type in (one for number, one in types.items() if number != OUR_OWN_TYPE):
            yield record_type.key, artifact
            yield record_type.value, artifact


JARS = dict(_messages_with_jars())
KAFKA_MESSAGES = sorted(JARS, key=lambda cls: cls.NAME)
OWN_MESSAGES = [table[key] for key in REQUESTS if key >= OWN_API for table in (REQUESTS, RESPONSES)]
ALL_MESSAGES = [*KAFKA_MESSAGES, *OWN_MESSAGES]
ALL_VERSIONS = [
    (cls, version) for cls in ALL_MESSAGES for version in range(cls.min_version, cls.max_version + 1)
]
KAFKA_VERSIONS = [(cls, version) for cls, version in ALL_VERSIONS if cls in JARS]


def java_class(cls: type[Message]) -> str:
    """The name of Kafka's class for a message."""
    suffix = "Data" if cls.NAME.endswith(("Request", "Response")) else ""
    return f"{JAVA_PACKAGES[JARS[cls]]}.{cls.NAME}{suffix}"


@cache
def kafka_descriptions(artifact: str) -> dict[str, dict[str, Any]]:
    """All message descriptions in one of Kafka's jars, by message name."""
    path = newest_client_jar() if artifact == "kafka-clients" else jar(artifact)
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        descriptions = [json.loads(_without_comments(archive.read(name).decode())) for name in names]
    return {description["name"]: description for description in descriptions}


def _without_comments(text: str) -> str:
    """Kafka's descriptions are JSON with comments, which stand at the start or the end of a line."""
    return re.sub(r'(^|(?<=[\s,{}\[\]"]))//.*$', "", text, flags=re.MULTILINE)


def snake_case(name: str) -> str:
    """Kafka writes LastKnownElr, we write last_known_elr."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def camel_case(name: str) -> str:
    """The way back, as Kafka's JSON converters spell field names: lastKnownElr."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def is_own(field: Field) -> bool:
    """A field that Kafka's messages do not have."""
    return field.name.startswith("barnabas_")
