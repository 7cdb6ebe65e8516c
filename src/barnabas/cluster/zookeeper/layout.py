"""Nodes of the metadata log in ZooKeeper, and their encoding.

/barnabas                 the metadata level (features.py), which brokers that are too old refuse to read
/barnabas/head            the offset of the newest entry; brokers watch only this
/barnabas/log/N           entry N as JSON; a long one refers to /barnabas/parts
/barnabas/snapshot        refers to the newest complete image, in chunks below /barnabas/snapshots
/controller_epoch         epoch of the controller that may write
/cluster/id               as in Kafka
"""

from __future__ import annotations

import msgspec

from barnabas.cluster.snapshots import DamagedMetadataError, MetadataEntry

ROOT = "/barnabas"
HEAD = f"{ROOT}/head"
LOG = f"{ROOT}/log"
PARTS = f"{ROOT}/parts"
SNAPSHOT = f"{ROOT}/snapshot"
SNAPSHOTS = f"{ROOT}/snapshots"
CONTROLLER_EPOCH = "/controller_epoch"


class LogHead(msgspec.Struct, frozen=True):
    offset: int
    controller_epoch: int


class Parts(msgspec.Struct, frozen=True):
    """Reference to a long text, stored in chunks."""

    folder: str
    count: int
    offset: int = 0


class StoreFormat(msgspec.Struct, frozen=True):
    format: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MetadataEntry)


def encode_entry(entry: MetadataEntry) -> bytes:
    return _encoder.encode(entry)


def decode_entry(text: bytes, path: str) -> MetadataEntry:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise DamagedMetadataError(
            f"{path} in ZooKeeper is not understood ({error}); was it written by a newer Barnabas?"
        ) from error


def log_path(offset: int) -> str:
    return f"{LOG}/{offset:010d}"


def offset_in(folder: str) -> int:
    return int(folder.partition("-")[0])
