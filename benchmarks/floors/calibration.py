"""How fast this machine does, right now, what a broker does for one small request, with nothing around it.

A limit in microseconds would hold on one machine only. A limit in multiples of this loop holds on all of them.
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
    """CPU of one send, receive, look, checksum, write and answer."""
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
