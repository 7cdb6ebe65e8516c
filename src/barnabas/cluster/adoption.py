"""Topics found on disk that the metadata does not know: a data folder that Apache Kafka wrote.

Names, ids and partitions come from the folders, configs from KRaft's own metadata log where there is one. Used
once, when a broker starts on folders that have partitions but no metadata of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import ConfigsChanged, Delta, ProducerIdsAllocated, TopicCreated
from barnabas.cluster.image import PartitionState, ResourceType, TopicState
from barnabas.cluster.kraft import TopicConfigs, read_topic_configs
from barnabas.common.errors import KafkaError
from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import decode_epochs, decode_partition_metadata, read_if_there
from barnabas.log.dirs.loading import KRAFT_METADATA
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition, Uuid, new_uuid

logger = safe_logger(__name__)

# Ids that the other cluster gave to its producers must not be given again: its logs still hold their state.
FIRST_PRODUCER_ID = 1_000_000


def adopt(files: FileSystem, log_dirs: Iterable[str], broker_id: int) -> list[Delta]:
    """The deltas that make the topics in these folders ours; empty when there are none."""
    found = dict(_partition_folders(files, log_dirs))
    if not found:
        return []
    configs = _configs(files, log_dirs)
    deltas: list[Delta] = []
    for name in sorted({place.topic for place in found}):
        deltas.append(TopicCreated(_topic(files, name, found, broker_id)))
        if name in configs:
            deltas.append(ConfigsChanged(ResourceType.TOPIC, name, dict(configs[name])))
    deltas.append(ProducerIdsAllocated(FIRST_PRODUCER_ID))
    logger.info("took over %d partitions that another broker wrote", len(found))
    return deltas


def _partition_folders(files: FileSystem, log_dirs: Iterable[str]) -> Iterator[tuple[TopicPartition, str]]:
    for log_dir in log_dirs:
        if not files.exists(log_dir):
            continue
        for name in files.list(log_dir):
            place = names.partition_of_folder(name)
            if place is not None and name != KRAFT_METADATA and files.is_folder(f"{log_dir}/{name}"):
                yield place, f"{log_dir}/{name}"


def _configs(files: FileSystem, log_dirs: Iterable[str]) -> TopicConfigs:
    for log_dir in log_dirs:
        folder = f"{log_dir}/{KRAFT_METADATA}"
        if files.exists(folder):
            try:
                return read_topic_configs(files, folder)
            except KafkaError as error:
                logger.warning("topics keep their default configs, %s cannot be read: %s", folder, error)
                return {}
    logger.warning("there is no %s beside the partitions: topics keep their default configs", KRAFT_METADATA)
    return {}


def _topic(files: FileSystem, name: str, found: dict[TopicPartition, str], broker_id: int) -> TopicState:
    folders = {place.partition: folder for place, folder in found.items() if place.topic == name}
    partitions = []
    for index in range(max(folders) + 1):
        if index not in folders:
            logger.warning("%s-%d has no folder: it starts empty", name, index)
        epoch = _last_epoch(files, folders[index]) if index in folders else 0
        partitions.append(PartitionState((broker_id,), (broker_id,), broker_id, leader_epoch=epoch))
    return TopicState(name, _topic_id(files, folders.values()), tuple(partitions))


def _topic_id(files: FileSystem, folders: Iterable[str]) -> Uuid:
    for folder in folders:
        if data := read_if_there(files, f"{folder}/{names.PARTITION_METADATA}"):
            return decode_partition_metadata(data)
    return new_uuid()


def _last_epoch(files: FileSystem, folder: str) -> int:
    data = read_if_there(files, f"{folder}/{names.LEADER_EPOCHS}")
    return max((epoch for epoch, _ in decode_epochs(data)), default=0) if data else 0
