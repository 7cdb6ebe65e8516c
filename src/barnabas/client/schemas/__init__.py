"""Client of a schema registry (Confluent's API): schemas by id, encoding and decoding of framed values.

A schema never changes under its id, so a fetched schema is cached; `latest` asks the registry each time.
"""

from barnabas.client.schemas.client import (
    AsyncSchemaClient,
    NotFramedError,
    RegistryError,
    Schema,
    SchemaClient,
    SchemaReference,
    SubjectVersion,
    decode,
    encode,
    join_message_index,
    split_message_index,
)

__all__ = [
    "AsyncSchemaClient",
    "NotFramedError",
    "RegistryError",
    "Schema",
    "SchemaClient",
    "SchemaReference",
    "SubjectVersion",
    "decode",
    "encode",
    "join_message_index",
    "split_message_index",
]
