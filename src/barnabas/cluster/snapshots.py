"""Framing of metadata log entries in a file, and snapshots: an image as a list of deltas."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from barnabas.cluster.deltas import (
    AclsChanged,
    BrokerStored,
    ClientQuotasChanged,
    ClusterCreated,
    ClusterRestored,
    ConfigsChanged,
    ControllerElected,
    DelegationTokenStored,
    Delta,
    FeatureFinalized,
    MirrorStored,
    ProducerIdsAllocated,
    RemoteDeletionBegun,
    ScramCredentialChanged,
    ScramDecoyKeyCreated,
    TopicCreated,
    changed,
)
from barnabas.cluster.image import NO_CONTROLLER, MetadataImage

# -- Framing of an entry: length, CRC32C of the text, text ---------------------------------------------

_HEAD = struct.Struct(">II")  # length and CRC32C of the text that follows


class MetadataEntry(msgspec.Struct, frozen=True):
    """One entry of the log. `offset` is that of the image after it."""

    offset: int
    controller_epoch: int
    deltas: list[Delta]


class DamagedMetadataError(Exception):
    """The metadata are damaged; the message says where, and what to do."""


_TEXT_START = b'{"offset":'
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MetadataEntry)


def encode_entry(entry: MetadataEntry) -> bytes:
    text = _encoder.encode(entry)
    return _HEAD.pack(len(text), crc32c(text)) + text


def decode_entries(data: bytes) -> tuple[list[MetadataEntry], int]:
    """Return the valid entries from the start, and the end position of the last one."""
    entries: list[MetadataEntry] = []
    position = 0
    while (text := _text_at(data, position)) is not None:
        entries.append(_decode(text, position))
        position += _HEAD.size + len(text)
    return entries, position


def has_entry_behind(data: bytes, position: int) -> bool:
    """True if a valid entry starts anywhere after this position."""
    start = data.find(_TEXT_START, position + _HEAD.size + 1)
    while start >= 0:
        if _text_at(data, start - _HEAD.size) is not None:
            return True
        start = data.find(_TEXT_START, start + 1)
    return False


def _text_at(data: bytes, position: int) -> bytes | None:
    if position + _HEAD.size > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, position)
    text = data[position + _HEAD.size : position + _HEAD.size + length]
    # An entry is never empty: zeros at the end of a file are not valid entries.
    return text if length and len(text) == length and crc32c(text) == checksum else None


def _decode(text: bytes, position: int) -> MetadataEntry:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise DamagedMetadataError(
            f"cannot decode the metadata entry at byte {position} ({error}); "
            "was this folder written by a newer version of Barnabas?"
        ) from error


ACLS_PER_DELTA = 500
"""Keeps a delta well below the size limit of a ZooKeeper node."""


def image_from_snapshot(deltas: Iterable[Delta], offset: int) -> MetadataImage:
    return changed(MetadataImage(), deltas, offset)


def snapshot_of(image: MetadataImage) -> Iterator[Delta]:
    """Yield the shortest list of deltas that builds this image from the empty one."""
    if image.cluster_id:
        yield ClusterCreated(image.cluster_id)
    if image.incarnation:
        yield ClusterRestored(image.incarnation)
    if image.controller_id != NO_CONTROLLER or image.controller_epoch:
        yield ControllerElected(image.controller_id, image.controller_epoch)
    yield from (FeatureFinalized(name, level) for name, level in image.features.items())
    yield from (BrokerStored(broker) for broker in image.brokers.values())
    yield from (TopicCreated(topic) for topic in image.topics.values())
    for resource, values in image.configs.items():
        yield ConfigsChanged(resource.type, resource.name, dict(values))
    if image.next_producer_id:
        yield ProducerIdsAllocated(image.next_producer_id)
    yield from _security_of(image)
    yield from map(RemoteDeletionBegun, image.remote_deletions.values())
    yield from map(MirrorStored, image.mirrors.values())


def _security_of(image: MetadataImage) -> Iterator[Delta]:
    acls = sorted(image.acls)
    for start in range(0, len(acls), ACLS_PER_DELTA):
        yield AclsChanged(added=tuple(acls[start : start + ACLS_PER_DELTA]))
    if image.scram_decoy_key:
        yield ScramDecoyKeyCreated(image.scram_decoy_key)
    for user, credential in image.scram_credentials.items():
        yield ScramCredentialChanged(user.name, user.mechanism, credential)
    yield from map(DelegationTokenStored, image.delegation_tokens.values())
    for entity, quotas in image.client_quotas.items():
        yield ClientQuotasChanged(entity, dict(quotas))
