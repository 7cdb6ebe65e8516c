"""CPU cost of receiving, checksumming and writing a GiB in Python on this machine, without a broker.

No broker can use less CPU than its system calls and checksums; the target for Barnabas is a multiple of this.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

from fastcrc.crc32 import iscsi as crc32c

from benchmarks.clients.sender import CHUNK
from benchmarks.loads import client_command

GIB = 1 << 30


def cpu_per_gib(scratch: Path, size: int) -> dict[str, float]:
    """CPU seconds per GiB in 128 KB batches: each step, and their sum."""
    received = checked = written = 0.0
    buffer = memoryview(bytearray(CHUNK))
    path = scratch / "floor.log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = subprocess.Popen(client_command("sender", server.getsockname()[1], size))
        connection, _ = server.accept()
        for _ in range(size // CHUNK):
            start = time.process_time()
            _receive_all(connection, buffer)
            after_receive = time.process_time()
            crc32c(buffer)
            after_check = time.process_time()
            os.write(file, buffer)
            received += after_receive - start
            checked += after_check - after_receive
            written += time.process_time() - after_check
        sender.wait()
        connection.close()
    os.close(file)
    path.unlink()
    per_gib = GIB / size
    steps = {"recv": received * per_gib, "crc": checked * per_gib, "write": written * per_gib}
    return {**steps, "cpu_per_gib": sum(steps.values())}


def _receive_all(connection: socket.socket, buffer: memoryview) -> None:
    filled = 0
    while filled < len(buffer):
        filled += connection.recv_into(buffer[filled:])
