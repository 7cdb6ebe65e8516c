"""Import of topics from a data folder written by Apache Kafka.

Names, ids and partitions come from the folders, configs from KRaft's metadata log, if it exists. Used once, when
a broker starts with log dirs that have partitions but no metadata of Barnabas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import ConfigsChanged, Delta, ProducerIdsAllocated, TopicCreated
from barnabas.cluster.image import ConfigResourceType, PartitionState, TopicState
from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid, new_uuid
from barnabas.log import decode_epochs, decode_partition_metadata, names, read_if_exists
from barnabas.log.dirs import KRAFT_METADATA
from barnabas.protocol import Message, ProtocolError, decode
from barnabas.protocol.messages.records.kraft import ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.wire import read_unsigned_varint
from barnabas.records import iterate_records
from barnabas.records.batch import iterate_headers

# -- Topic configs from the KRaft metadata log ---------------------------------------------------------

TopicConfigs = dict[str, dict[str, str]]
_RECORDS: dict[int, type[Message]] = {
    kind.api_key: kind for kind in (TopicRecord, ConfigRecord, RemoveTopicRecord)
}


def read_topic_configs(files: FileSystem, folder: str) -> TopicConfigs:
    """Return configs by topic name, replayed from the newest snapshot on. Raise KafkaError if the log is unreadable."""
    replay = _Replay()
    for name in _files_to_replay(files.list(folder)):
        data = memoryview(files.read_bytes(f"{folder}/{name}"))
        for position, header in iterate_headers(data):
            if not header.is_control:
                for record in iterate_records(data[position : position + header.size], header):
                    replay.record(record.value)
    return replay.configs


def _files_to_replay(names: list[str]) -> list[str]:
    """Newest snapshot, then all segments: replaying records that are in the snapshot changes nothing."""
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
        elif isinstance(message, ConfigRecord) and message.resource_type == ConfigResourceType.TOPIC:
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
        return None  # a record of a newer Kafka: its topics keep the default configs


logger = safe_logger(__name__)

# Producer ids of the Kafka cluster must not be allocated again: the logs still have their state.
FIRST_PRODUCER_ID = 1_000_000


def adopt(files: FileSystem, log_dirs: Iterable[str], broker_id: int) -> list[Delta]:
    """Return deltas that create the topics found in these log dirs; empty if there are none."""
    found = dict(_partition_folders(files, log_dirs))
    if not found:
        return []
    configs = _configs(files, log_dirs)
    deltas: list[Delta] = []
    for name in sorted({tp.topic for tp in found}):
        deltas.append(TopicCreated(_topic(files, name, found, broker_id)))
        if name in configs:
            deltas.append(ConfigsChanged(ConfigResourceType.TOPIC, name, dict(configs[name])))
    deltas.append(ProducerIdsAllocated(FIRST_PRODUCER_ID))
    logger.info("imported %d partitions written by another broker", len(found))
    return deltas


def _partition_folders(files: FileSystem, log_dirs: Iterable[str]) -> Iterator[tuple[TopicPartition, str]]:
    for log_dir in log_dirs:
        if not files.exists(log_dir):
            continue
        for name in files.list(log_dir):
            tp = names.partition_of_folder(name)
            if tp is not None and name != KRAFT_METADATA and files.is_folder(f"{log_dir}/{name}"):
                yield tp, f"{log_dir}/{name}"


def _configs(files: FileSystem, log_dirs: Iterable[str]) -> TopicConfigs:
    for log_dir in log_dirs:
        folder = f"{log_dir}/{KRAFT_METADATA}"
        if files.exists(folder):
            try:
                return read_topic_configs(files, folder)
            except KafkaError as error:
                logger.warning("topics get default configs: cannot read %s: %s", folder, error)
                return {}
    logger.warning("topics get default configs: %s is missing", KRAFT_METADATA)
    return {}


def _topic(files: FileSystem, name: str, found: dict[TopicPartition, str], broker_id: int) -> TopicState:
    folders = {tp.partition: folder for tp, folder in found.items() if tp.topic == name}
    partitions = []
    for index in range(max(folders) + 1):
        if index not in folders:
            logger.warning("%s-%d has no folder; it will be created empty", name, index)
        epoch = _last_epoch(files, folders[index]) if index in folders else 0
        partitions.append(PartitionState((broker_id,), (broker_id,), broker_id, leader_epoch=epoch))
    return TopicState(name, _topic_id(files, folders.values()), tuple(partitions))


def _topic_id(files: FileSystem, folders: Iterable[str]) -> Uuid:
    for folder in folders:
        if data := read_if_exists(files, f"{folder}/{names.PARTITION_METADATA}"):
            return decode_partition_metadata(data)
    return new_uuid()


def _last_epoch(files: FileSystem, folder: str) -> int:
    data = read_if_exists(files, f"{folder}/{names.LEADER_EPOCHS}")
    return max((epoch for epoch, _ in decode_epochs(data)), default=0) if data else 0
