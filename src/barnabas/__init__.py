"""Barnabas: a Kafka that installs with pip.

Public: the Python client (docs/python-client.md), `table` (docs/tables.md) and `barnabas.testing` (docs/testing.md).
Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.common.version import __version__ as __version__

if TYPE_CHECKING:
    from typing import Unpack

    from barnabas.client import (
        BufferFullError,
        ClientError,
        CommittedOffset,
        GroupMetadata,
        ProducerFencedError,
        TransactionError,
    )
    from barnabas.client.api import (
        AcknowledgeError,
        Acl,
        AsyncAdmin,
        AsyncConsumer,
        AsyncProducer,
        AsyncShareConsumer,
        CommitFailedError,
        ConsumerRecord,
        DeliveryError,
        NoOffsetError,
        ProducerRecord,
        RecordMetadata,
        SerializationError,
        ShareRecord,
    )
    from barnabas.client.api import BlockingAdmin as Admin
    from barnabas.client.api import BlockingConsumer as Consumer
    from barnabas.client.api import BlockingProducer as Producer
    from barnabas.client.api import BlockingShareConsumer as ShareConsumer
    from barnabas.common.errors import ErrorCode, KafkaError
    from barnabas.common.types import TopicPartition
    from barnabas.tables import Table, TableOptions

__all__ = [
    "AcknowledgeError",
    "Acl",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "BufferFullError",
    "ClientError",
    "CommitFailedError",
    "CommittedOffset",
    "Consumer",
    "ConsumerRecord",
    "DeliveryError",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "NoOffsetError",
    "Producer",
    "ProducerFencedError",
    "ProducerRecord",
    "RecordMetadata",
    "SerializationError",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "TransactionError",
    "__version__",
    "table",
]

if not TYPE_CHECKING:  # for type checkers, another name is an error
    _BLOCKING = {"Admin", "Consumer", "Producer", "ShareConsumer"}
    _OF_COMMON = {"ErrorCode", "KafkaError", "TopicPartition"}
    _OF_CLIENT = {
        "BufferFullError",
        "ClientError",
        "CommittedOffset",
        "GroupMetadata",
        "ProducerFencedError",
        "TransactionError",
    }

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
        if name in _OF_COMMON:
            from barnabas.common import errors, types

            return getattr(types if name == "TopicPartition" else errors, name)
        import barnabas.client as client
        import barnabas.client.api as api

        home = client if name in _OF_CLIENT else api
        return getattr(home, f"Blocking{name}" if name in _BLOCKING else name)

    def __dir__() -> list[str]:
        return __all__


def table(topic: str, **options: Unpack[TableOptions]) -> Table:
    """Open a topic of a cluster (`bootstrap`), a data folder (`data`) or an object store (`remote`) as a table.

    `schema` is DDL (`"user STRING, amount DOUBLE"`), a pyarrow schema or, with `format="avro"`, an Avro schema. Without
    it the schema comes from `registry`, or is inferred from JSON and reported through `notify` (standard error).
    `config` holds TLS and SASL settings by Kafka's names for brokers, and options of the object store.
    """
    try:
        from barnabas.tables import open_table

        return open_table(topic, **options)
    except ModuleNotFoundError as error:
        from barnabas.common.installation import extra_command

        text = f"tables need {error.name}: {extra_command('table')}"
        raise ModuleNotFoundError(text, name=error.name) from None
