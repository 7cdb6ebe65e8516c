"""Topic configs out of the metadata log of an Apache Kafka that wrote these folders before us.

KRaft keeps its metadata in `__cluster_metadata-0`: snapshots (`*.checkpoint`) and segments (`*.log`) of record
batches. Each record's value is three varints (frame version, record type, version) and a message. Only
topics and their configs are read here, nothing is ever written, and the log is never served.
"""

from __future__ import annotations

from barnabas.cluster.image import ResourceType
from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.protocol import Message, ProtocolError, decode
from barnabas.protocol.messages.records.kraft import ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.wire import read_unsigned_varint
from barnabas.records.batch import iterate_headers
from barnabas.records.record import iterate_records
from barnabas.common.types import Uuid

TopicConfigs = dict[str, dict[str, str]]
_RECORDS: dict[int, type[Message]] = {
    kind.api_key: kind for kind in (TopicRecord, ConfigRecord, RemoveTopicRecord)
}


def read_topic_configs(files: FileSystem, folder: str) -> TopicConfigs:
    """Configs by topic name, replayed from the newest snapshot on. KafkaError when the log cannot be read."""
    replay = _Replay()
    for name in _files_to_replay(files.list(folder)):
        data = memoryview(files.read_bytes(f"{folder}/{name}"))
        for position, header in iterate_headers(data):
            if not header.is_control:
                for record in iterate_records(data[position : position + header.size], header):
                    replay.record(record.value)
    return replay.configs


def _files_to_replay(names: list[str]) -> list[str]:
    """The newest snapshot, then every segment: replaying what a snapshot already holds changes nothing."""
    snapshots = sorted(name for name in names if name.endswith(".checkpoint"))
    return snapshots[-1:] + sorted(name for name in names if name.endswith(".log"))


class _Replay:
    def __init__(self) -> None:
        self.configs: TopicConfigs = {}
        self._names: dict[Uuid, str] = {}

    def record(self, value: bytes | None) -> None:
        message = _decode(value) if value else None
        if isinstance(message, TopicRecord):
            self._names[message.topic_id] = message.name
        elif isinstance(message, RemoveTopicRecord):
            self.configs.pop(self._names.pop(message.topic_id, ""), None)
        elif isinstance(message, ConfigRecord) and message.resource_type == ResourceType.TOPIC:
            self._set(message)

    def _set(self, message: ConfigRecord) -> None:
        configs = self.configs.setdefault(message.resource_name, {})
        if message.value is None:
            configs.pop(message.name, None)
        else:
            configs[message.name] = message.value


def _decode(value: bytes) -> Message | None:
    try:
        view = memoryview(value)
        _, position = read_unsigned_varint(view, 0)
        kind, position = read_unsigned_varint(view, position)
        version, position = read_unsigned_varint(view, position)
        declaration = _RECORDS.get(kind)
        return decode(declaration, version, view, position)[0] if declaration else None
    except (ProtocolError, KafkaError, IndexError):
        return None  # a record of a later Kafka: its topics keep their defaults
