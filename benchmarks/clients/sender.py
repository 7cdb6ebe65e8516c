"""Sends bytes to a port at full speed: the peer of the floor measurement.

python -m benchmarks.clients.sender PORT BYTES
"""

import socket
import sys

CHUNK = 128 * 1024


def main() -> None:
    port, total = int(sys.argv[1]), int(sys.argv[2])
    chunk = bytes(CHUNK)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(total // CHUNK):
            connection.sendall(chunk)


if __name__ == "__main__":
    main()
