"""Current speed of this machine at the basic work of one small request, without a broker.

A limit in microseconds would be valid on one machine only; a limit in multiples of this loop is portable.
"""

import os
import socket
import struct
import tempfile
import time

from fastcrc.crc32 import iscsi as crc32c

from benchmarks import wire

_ITERATIONS = 20_000


def microseconds_per_request() -> float:
    """CPU time of one send, receive, parse, checksum, write and response."""
    frame = wire.produce_frame("calibration", 0, wire.record_batch(100, 1))
    buffer = memoryview(bytearray(4096))
    near, far = socket.socketpair()
    with near, far, tempfile.TemporaryFile() as file:
        begin = time.process_time()
        for _ in range(_ITERATIONS):
            near.send(frame)
            _serve_one(far, buffer, file.fileno())
            near.recv(64)
        return (time.process_time() - begin) / _ITERATIONS * 1e6


def _serve_one(connection: socket.socket, buffer: memoryview, fd: int) -> None:
    size = connection.recv_into(buffer)
    length, _api, _version, correlation = struct.unpack_from(">ihhi", buffer)
    assert length == size - 4
    checksum = crc32c(buffer[:size])
    os.write(fd, buffer[:size])
    connection.send(struct.pack(">iiI", 8, correlation, checksum))
