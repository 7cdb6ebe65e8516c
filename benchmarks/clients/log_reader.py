"""Reads a partition once from start to end offset, as fast as one connection allows, without decoding its batches.

python -m benchmarks.clients.log_reader --port P --topic T --end-offset N
python -m benchmarks.clients.log_reader --port P --frames N    # from a peer that sends frames unrequested
"""

import argparse
import json
import socket
import struct
import time

from benchmarks import wire

FETCH_BYTES = 8 << 20
MAX_WAIT_MS = 500
DEADLINE = 300.0
_BEFORE_PARTITIONS = (
    4 + 4 + 10 + 2
)  # correlation id, throttle time, error and session, length of the topic name
_TO_RECORDS = 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4  # number of partitions to preferred replica
_BASE_OFFSET, _LENGTH, _LAST_DELTA = 0, 8, 23  # positions in the batch header


def read(port: int, topic: str, end_offset: int) -> int:
    """Read up to `end_offset`; return the number of bytes of records."""
    offset = size = 0
    deadline = time.monotonic() + DEADLINE
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        while offset < end_offset:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} was read up to {offset} only")
            connection.sendall(wire.fetch_frame(topic, 0, offset, FETCH_BYTES, MAX_WAIT_MS))
            records = records_in(topic, receive(connection))
            size += len(records)
            offset = next_offset(records, offset)
    return size


def read_frames(port: int, count: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for _ in range(count):
            receive(connection)


def receive(connection: socket.socket) -> bytearray:
    """The next response, without its length prefix."""
    return _receive(connection, int.from_bytes(_receive(connection, 4), "big"))


def _receive(connection: socket.socket, count: int) -> bytearray:
    """Receive into one buffer, since a response has megabytes."""
    received = bytearray(count)
    left = memoryview(received)
    while left:
        came = connection.recv_into(left)
        if not came:
            raise ConnectionError("the broker closed the connection")
        left = left[came:]
    return received


def records_in(topic: str, answer: bytearray) -> memoryview:
    error = wire.fetch_error(topic, bytes(4) + answer[:512])
    if error:
        raise RuntimeError(f"the broker answered with error {error}")
    position = _BEFORE_PARTITIONS + len(topic) + _TO_RECORDS
    (length,) = struct.unpack_from(">i", answer, position)
    return memoryview(answer)[position + 4 : position + 4 + max(0, length)]


def next_offset(records: memoryview, offset: int) -> int:
    """Offset after the last complete batch."""
    position = 0
    while position + 61 <= len(records):
        (length,) = struct.unpack_from(">i", records, position + _LENGTH)
        if position + 12 + length > len(records):
            break
        (base,) = struct.unpack_from(">q", records, position + _BASE_OFFSET)
        (delta,) = struct.unpack_from(">i", records, position + _LAST_DELTA)
        offset = base + delta + 1
        position += 12 + length
    return offset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic")
    parser.add_argument("--end-offset", type=int)
    parser.add_argument("--frames", type=int)
    options = parser.parse_args()
    if options.frames:
        read_frames(options.port, options.frames)
        return
    begin = time.perf_counter()
    size = read(options.port, options.topic, options.end_offset)
    seconds = time.perf_counter() - begin
    print(json.dumps({"bytes": float(size), "mb_per_second": size / seconds / 1e6}))


if __name__ == "__main__":
    main()
