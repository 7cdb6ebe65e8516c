"""The few Kafka frames that the load generators need, pre-encoded and independent of Barnabas' codec.

Produce v8, Fetch v11 and OffsetCommit v7 are the newest versions before the flexible encoding; both brokers
serve them.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from functools import cache

from fastcrc.crc32 import iscsi as crc32c

PRODUCE, FETCH, OFFSET_COMMIT, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 0, 1, 8, 17, 18, 36
_PRODUCE_VERSION, _FETCH_VERSION, _COMMIT_VERSION = 8, 11, 7
_CLIENT_ID = b"bench"
NO_SESSION = (0, -1)  # id and epoch


def record_batch(record_bytes: int, records: int) -> bytes:
    """A batch (magic 2) of equal records, uncompressed, without a producer id."""
    value = b"x" * record_bytes
    return _batch(b"".join(_record(delta, value) for delta in range(records)), records)


def keyed_batch(keys: Sequence[bytes], record_bytes: int) -> bytes:
    """A batch of one record for each key, all keys equally long."""
    value = b"x" * record_bytes
    suffix = _varint(len(value)) + value + b"\x00"
    prefixes = _prefixes(len(keys), len(keys[0]), len(suffix))
    body = b"".join(
        [part for prefix, key in zip(prefixes, keys, strict=True) for part in (prefix, key, suffix)]
    )
    return _batch(body, len(keys))


@cache
def _prefixes(records: int, key_bytes: int, suffix_bytes: int) -> list[bytes]:
    """Bytes before the key of each record: the record length and the offset delta."""
    heads = [b"\x00\x00" + _varint(delta) + _varint(key_bytes) for delta in range(records)]
    return [_varint(len(head) + key_bytes + suffix_bytes) + head for head in heads]


def _batch(body: bytes, records: int) -> bytes:
    now = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, records - 1, now, now, -1, -1, -1, records) + body
    after_length = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length


def api_versions_frame() -> bytes:
    """The smallest possible request."""
    return _frame(API_VERSIONS, 0, b"")


def produce_frame(topic: str, partition: int, batch: bytes, acks: int = 1) -> bytes:
    return produce_frame_of(topic, (partition,), batch, acks)


def produce_frame_of(topic: str, partitions: Sequence[int], batch: bytes, acks: int = 1) -> bytes:
    """The same batch for several partitions."""
    body = struct.pack(">hhi", -1, acks, 30_000)  # no transaction, acks, timeout
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">i", len(partitions))
    body += b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in partitions)
    return _frame(PRODUCE, _PRODUCE_VERSION, body)


def produce_error(topic: str, response: bytes) -> int:
    """The error code of a response to `produce_frame`, its length prefix included."""
    code: int = struct.unpack_from(">h", response, 4 + 4 + 4 + 2 + len(topic) + 4 + 4)[0]
    return code


def fetch_frame(
    topic: str, partition: int, offset: int, max_bytes: int = 65536, max_wait_ms: int = 0
) -> bytes:
    """A sessionless fetch; with `max_wait_ms` 0 the broker responds at once with the available records."""
    return fetch_frame_of(topic, {partition: offset}, max_bytes, max_wait_ms)


def fetch_frame_of(
    topic: str,
    offsets: Mapping[int, int],
    max_bytes: int = 65536,
    max_wait_ms: int = 0,
    session: tuple[int, int] = NO_SESSION,
) -> bytes:
    """A fetch of several partitions, by partition and offset; with a session, of those that have changed."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, 50 << 20, 0, *session)
    if offsets:
        body += struct.pack(">i", 1) + _string(topic) + struct.pack(">i", len(offsets))
    else:
        body += struct.pack(">i", 0)
    for partition, offset in offsets.items():
        body += struct.pack(">iiqqi", partition, -1, offset, -1, max_bytes)
    body += struct.pack(">i", 0) + _string("")  # nothing forgotten, no rack
    return _frame(FETCH, _FETCH_VERSION, body)


def fetch_session(response: bytes) -> int:
    """The session id in a response to `fetch_frame_of`, its length prefix included."""
    return int(struct.unpack_from(">i", response, 4 + 4 + 4 + 2)[0])


def fetch_error(topic: str, response: bytes) -> int:
    """The first error code of a response to `fetch_frame`, top-level or of the partition."""
    of_request, _session, topics = struct.unpack_from(">hii", response, 4 + 4 + 4)
    if of_request or not topics:
        return int(of_request)
    code: int = struct.unpack_from(">h", response, 4 + 4 + 4 + 10 + 2 + len(topic) + 4 + 4)[0]
    return code


def commit_frame(group: str, topic: str, partition: int, offset: int) -> bytes:
    """An offset commit by a standalone consumer."""
    body = (
        _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">h", -1)
    )  # no member, no instance
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iiqi", 1, partition, offset, -1) + _string("")  # no leader epoch, no metadata
    return _frame(OFFSET_COMMIT, _COMMIT_VERSION, body)


def commit_error(topic: str, response: bytes) -> int:
    """The error code of a response to `commit_frame`."""
    code: int = struct.unpack_from(">h", response, 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4)[0]
    return code


def sasl_handshake_frame(mechanism: str) -> bytes:
    return _frame(SASL_HANDSHAKE, 1, _string(mechanism))


def check_sasl_handshake(response: bytes) -> None:
    """Raise if the handshake failed; `response` excludes its length prefix."""
    (code,) = struct.unpack_from(">h", response, 4)
    if code:
        raise RuntimeError(f"the broker does not offer the mechanism: error {code}")


def sasl_authenticate_frame(token: bytes) -> bytes:
    return _frame(SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token)


def sasl_token(response: bytes) -> bytes:
    """Token in a response to `sasl_authenticate_frame`; `response` excludes its length prefix."""
    code, message_length = struct.unpack_from(">hh", response, 4)
    start = 8 + max(0, message_length)
    if code:
        raise RuntimeError(f"login refused: error {code}, {response[8:start].decode()}")
    (length,) = struct.unpack_from(">i", response, start)
    return response[start + 4 : start + 4 + length]


def _record(delta: int, value: bytes) -> bytes:
    # attributes, timestamp delta 0, offset delta, no key, value, no headers
    body = b"\x00\x00" + _varint(delta) + b"\x01" + _varint(len(value)) + value + b"\x00"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    """Zigzag varint of a non-negative number."""
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _frame(api: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body
