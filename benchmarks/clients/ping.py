"""The longest time in which a broker did not answer a small request on a connection of its own.

python -m benchmarks.clients.ping --port P       # ends, and prints a JSON object, when its input is closed
"""

import argparse
import json
import select
import socket
import sys
import time

from benchmarks import wire

_EVERY_SECONDS = 0.002
_TIMEOUT_SECONDS = 120.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    frame, longest, pings = wire.api_versions_frame(), 0.0, 0
    with socket.create_connection(("127.0.0.1", parser.parse_args().port), timeout=_TIMEOUT_SECONDS) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not select.select([sys.stdin], [], [], _EVERY_SECONDS)[0]:
            begin = time.perf_counter()
            sock.sendall(frame)
            size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
            sock.recv(size, socket.MSG_WAITALL)
            longest, pings = max(longest, time.perf_counter() - begin), pings + 1
    print(json.dumps({"longest": longest, "pings": pings}))


if __name__ == "__main__":
    main()
