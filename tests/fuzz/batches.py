"""Content of `records` fields: batches as built by producers, and inconsistent batches."""

from __future__ import annotations

import gzip
import zlib
from random import Random
from typing import TYPE_CHECKING

from barnabas.protocol.codec import encode
from barnabas.protocol.messages.consumer import ConsumerProtocolSubscription
from barnabas.records.batch import HEADER, HEADER_SIZE, BatchHeader, read_header, write_crc
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec, compress
from barnabas.records.record import Record
from barnabas.records.varints import varint
from tests.fuzz.extremes import INTEGERS

if TYPE_CHECKING:
    from tests.fuzz.world import World

FUTURE_MS = 4_102_444_800_000  # the year 2100: above a topic's timestamp limit
_KINDS = {
    "base_offset": "int64", "leader_epoch": "int32", "attributes": "int16", "last_offset_delta": "int32",
    "base_timestamp": "int64", "max_timestamp": "int64", "producer_id": "int64", "producer_epoch": "int16",
    "base_sequence": "int32", "record_count": "int32",
}  # fmt: skip


def batch_of(payload: bytes, codec: int = Codec.NONE, *, records: int = 1, timestamp: int = 0) -> bytes:
    """A batch with a valid header and any payload."""
    header = BatchHeader(
        0,
        HEADER_SIZE - 12 + len(payload),
        -1,
        2,
        0,
        codec,
        records - 1,
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        records,
    )
    return with_header(header, payload)


def with_header(header: BatchHeader, payload: bytes) -> bytes:
    batch = bytearray(HEADER.pack(*header)) + payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def header_bomb(headers: int, *, timestamp: int = FUTURE_MS) -> bytes:
    """One record with very many empty headers, a few bytes when compressed."""
    body = b"\x00\x00\x00\x01\x00" + varint(headers) + bytes(2 * headers)
    return batch_of(compress(Codec.ZSTD, varint(len(body)) + body), Codec.ZSTD, timestamp=timestamp)


def empty_gzip_members(size: int, *, timestamp: int = FUTURE_MS) -> bytes:
    member = gzip.compress(b"", mtime=0)
    return batch_of(member * (size // len(member)), Codec.GZIP, timestamp=timestamp)


def claims_many_records() -> bytes:
    return batch_of(bytes(20), records=2**31 - 1)


def _good(count: int, codec: int, timestamp: int) -> bytes:
    records = [
        Record(offset=index, timestamp=timestamp, key=b"k%d" % index, value=b"v" * 10)
        for index in range(count)
    ]
    return bytes(build_batch(records, compression=codec))


class Batches:
    """A pool of batches, built once because compression is slow."""

    def __init__(self, source: Random, now_ms: int) -> None:
        codecs = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
        self._good = [_good(count, codec, now_ms) for count in (1, 10) for codec in codecs]
        self._hostile = [
            header_bomb(20_000),
            header_bomb(400_000),
            header_bomb(400_000, timestamp=now_ms),
            empty_gzip_members(100_000),
            claims_many_records(),
            claims_many_records() * 50,
            batch_of(compress(Codec.ZSTD, bytes(30_000_000)), Codec.ZSTD, timestamp=FUTURE_MS),
            batch_of(zlib.compress(bytes(30_000_000)), Codec.GZIP, timestamp=FUTURE_MS),
            *(batch_of(source.randbytes(200), codec, timestamp=FUTURE_MS) for codec in codecs),
            *(batch_of(varint(2**31 - 1) + bytes(30), codec) for codec in codecs),
            batch_of(b"", records=0),
            _good(1, Codec.NONE, now_ms) * 300,
            _good(1000, Codec.NONE, now_ms),
            source.randbytes(300),
            b"",
        ]

    def draw(self, source: Random, world: World) -> bytes:
        how = source.random()
        if how < 0.35:
            return source.choice(self._good)
        if how < 0.75:
            return self._with_extreme_header(source, world)
        if how < 0.97:
            return source.choice(self._hostile)
        complete = source.choice(self._good)
        return complete[: source.randrange(len(complete))]

    def _with_extreme_header(self, source: Random, world: World) -> bytes:
        batch = source.choice(self._good)
        header = read_header(batch)
        changed = {
            name: source.choice(INTEGERS[_KINDS[name]])
            for name in source.sample(tuple(_KINDS), source.randint(1, 2))
        }
        if source.random() < 0.6:  # an idempotent producer, possibly an existing one
            learned = {name: world.recall(name, source) for name in ("producer_id", "producer_epoch")}
            changed |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
            changed |= {name: value for name, value in learned.items() if value is not None}
        return with_header(header._replace(**changed), batch[HEADER_SIZE:])

    def opaque(self, source: Random) -> bytes:
        """Embedded data of group members: a subscription, or similar bytes."""
        subscription = encode(
            ConsumerProtocolSubscription(topics=["known", "many"] * source.choice((1, 1, 50))), 1
        )
        data = b"\x00\x01" + subscription
        return data if source.random() < 0.6 else data[: source.randrange(len(data))] + b"\xff\xff\xff"
