"""Many connections from one process: each sends a request, waits for the answer, and sends the next.

    python -m benchmarks.clients.loadgen --port P --topic T --api produce --connections 200 --requests 50000

Frames are encoded before the clock starts, so that the generator costs as little as Python can. One epoll
loop drives all connections; it ends after a fixed number of answers, so that CPU times can be compared.
"""

import argparse
import json
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import wire


@dataclass
class Connection:
    sock: socket.socket
    frame: bytes
    received: bytearray = field(default_factory=bytearray)

    def answered(self) -> bool:
        """Takes what has arrived; true once a whole answer is there."""
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.received += data
        return len(self.received) >= 4 and len(self.received) >= 4 + int.from_bytes(self.received[:4], "big")


def run(connections: list[Connection], requests: int, error_of: Callable[[bytearray], int]) -> float:
    """Seconds until `requests` answers have come. Every answer is looked at: an error ends the run."""
    by_fd = {connection.sock.fileno(): connection for connection in connections}
    with select.epoll(len(by_fd)) as poller:
        for fd in by_fd:
            poller.register(fd, select.EPOLLIN)
        begin = time.perf_counter()
        for connection in connections:
            connection.sock.sendall(connection.frame)
        _drive(poller, by_fd, requests, error_of)
        return time.perf_counter() - begin


def _drive(
    poller: select.epoll, by_fd: dict[int, Connection], requests: int, error_of: Callable[[bytearray], int]
) -> None:
    answers = 0
    while True:
        for fd, _event in poller.poll():
            connection = by_fd[fd]
            if not connection.answered():
                continue
            error = error_of(connection.received)
            if error:
                raise RuntimeError(f"the broker answered with error {error}")
            answers += 1
            if answers == requests:
                return
            connection.received.clear()
            connection.sock.sendall(connection.frame)


ERRORS = {"produce": wire.produce_error, "fetch": wire.fetch_error, "commit": wire.commit_error}


def frames(options: argparse.Namespace) -> list[bytes]:
    """One frame for each connection, spread over the partitions (and, for fetches, over the offsets)."""
    batch = wire.record_batch(options.record_bytes, 1)
    made = []
    for number in range(options.connections):
        partition = number % options.partitions
        if options.api == "produce":
            made.append(wire.produce_frame(options.topic, partition, batch))
        elif options.api == "commit":
            group = f"group-{number % options.groups}"
            made.append(wire.commit_frame(group, options.topic, partition, number))
        else:
            offset = options.end_offset * number // options.connections
            made.append(wire.fetch_frame(options.topic, partition, offset, options.fetch_bytes))
    return made


def connect(host: str, port: int, frame: bytes) -> Connection:
    sock = socket.create_connection((host, port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(sock, frame)


def main() -> None:
    options = _parse()
    error_of = ERRORS[options.api]
    connections = [connect(options.host, options.port, frame) for frame in frames(options)]
    seconds = run(connections, options.requests, lambda answer: error_of(options.topic, bytes(answer[:512])))
    print(json.dumps({"requests": options.requests, "seconds": seconds}))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api", choices=list(ERRORS), required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--groups", type=int, default=1, help="commits are spread over so many groups")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--fetch-bytes", type=int, default=65536, help="how much a fetch may bring")
    parser.add_argument("--end-offset", type=int, default=0, help="fetches are spread over 0..end-offset")
    return parser.parse_args()


if __name__ == "__main__":
    main()
