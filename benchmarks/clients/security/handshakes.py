"""Full TLS 1.3 handshakes with P-256, on new connections, each followed by one small request and its response.

    python -m benchmarks.clients.security.handshakes --port P --ca FILE --count 1000 [--threads 8]

The response proves that the broker has completed the handshake: a TLS 1.3 client completes it first.
"""

import argparse
import json

from benchmarks.clients.ping import ping
from benchmarks.clients.security.connecting import connect, repeated


def shake_hands(port: int, authority: str) -> None:
    with connect(port, authority) as connection:
        ping(connection)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--threads", type=int, default=8, help="connections at once")
    options = parser.parse_args()
    seconds = repeated(lambda: shake_hands(options.port, options.ca), options.count, options.threads)
    print(json.dumps({"count": options.count, "seconds": seconds}))


if __name__ == "__main__":
    main()
