"""Checkpoint and metadata files of a log dir and of a partition's folder, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.common.files import FileSystem
from barnabas.common.types import TopicPartition, Uuid, uuid_from_text, uuid_to_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

_VERSION = "0"


class CheckpointError(ValueError):
    """The file is invalid."""


def encode_lines(entries: Iterable[str]) -> bytes:
    """Encode version, number of entries, and one entry per line."""
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def decode_lines(data: bytes, fields: int) -> list[list[str]]:
    """Decode the entries of a checkpoint into their fields; raise CheckpointError if the file is invalid."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CheckpointError("not valid UTF-8") from None
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise CheckpointError("the first line is not version 0")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if lines[1].strip() != str(len(entries)) or any(len(entry) != fields for entry in entries):
        raise CheckpointError(f"expected {lines[1].strip()} entries of {fields} fields")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in decode_lines(data, 3)
        }
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return encode_lines(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    try:
        return [(int(epoch), int(start)) for epoch, start in decode_lines(data, 2)]
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> Uuid:
    fields = dict(name_value_pairs(data.decode("utf-8", "replace"), ":"))
    try:
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"missing or invalid topic id ({error})") from None


def name_value_pairs(text: str, separator: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        name, match, value = line.partition(separator)
        if match and not line.startswith("#"):
            yield name.strip(), value.strip()


def read_if_exists(fs: FileSystem, path: str) -> bytes | None:
    try:
        return fs.read_bytes(path)
    except FileNotFoundError:
        return None
