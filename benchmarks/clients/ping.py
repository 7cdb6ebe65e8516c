"""Latency of small requests to a broker, one at a time on a separate connection.

    python -m benchmarks.clients.ping --port P [--ca FILE]    # --ca enables TLS

Prints a line after the first response. When standard input is closed, it prints a JSON object and exits.
"""

import argparse
import json
import select
import socket
import sys
import time

from benchmarks import wire
from benchmarks.clients.percentiles import summary
from benchmarks.clients.probe import receive_frame
from benchmarks.clients.security.connecting import connect

_EVERY_SECONDS = 0.002


def ping(connection: socket.socket) -> float:
    begin = time.perf_counter()
    connection.sendall(wire.api_versions_frame())
    receive_frame(connection)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", help="the authority of a broker that speaks TLS")
    options = parser.parse_args()
    with connect(options.port, options.ca) as connection:
        ping(connection)
        print("answered", flush=True)
        samples = [ping(connection)]
        while not select.select([sys.stdin], [], [], _EVERY_SECONDS)[0]:
            samples.append(ping(connection))
    print(json.dumps({"longest": max(samples), **summary(samples)}))


if __name__ == "__main__":
    main()
