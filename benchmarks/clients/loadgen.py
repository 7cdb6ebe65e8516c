"""Closed-loop load over many connections from one process: each sends a request and waits for the response.

    python -m benchmarks.clients.loadgen --port P --topic T --api produce --connections 200 --requests 50000

Frames are encoded before the clock starts, to minimize the cost of the generator. One epoll loop drives all
connections; it ends after a fixed number of responses, so that CPU times are comparable.
"""

import argparse
import json
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks import wire


@dataclass
class Connection:
    sock: socket.socket
    frame: bytes
    received: bytearray = field(default_factory=bytearray)

    def answered(self) -> bool:
        """Read available data; return True once the response is complete."""
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.received += data
        return len(self.received) >= 4 and len(self.received) >= 4 + int.from_bytes(self.received[:4], "big")


def run(
    connections: list[Connection], requests: int, error_of: Callable[[bytearray], int], rate: int = 0
) -> float:
    """Seconds until `requests` responses have arrived. Every response is checked: an error ends the run.

    With a rate, a connection waits for its next slot after a response; without one it sends immediately.
    """
    by_fd = {connection.sock.fileno(): connection for connection in connections}
    with select.epoll(len(by_fd)) as poller:
        for fd in by_fd:
            poller.register(fd, select.EPOLLIN)
        begin = time.perf_counter()
        if rate:
            _drive_at_rate(poller, by_fd, requests, error_of, rate)
        else:
            for connection in connections:
                connection.sock.sendall(connection.frame)
            _drive(poller, by_fd, requests, error_of)
        return time.perf_counter() - begin


def _drive(
    poller: select.epoll, by_fd: dict[int, Connection], requests: int, error_of: Callable[[bytearray], int]
) -> None:
    answers = 0
    while True:
        for connection in _answered(poller, by_fd, error_of, None):
            answers += 1
            if answers == requests:
                return
            connection.sock.sendall(connection.frame)


def _drive_at_rate(
    poller: select.epoll,
    by_fd: dict[int, Connection],
    requests: int,
    error_of: Callable[[bytearray], int],
    rate: int,
) -> None:
    idle, sent, answers = deque(by_fd.values()), 0, 0
    begin = time.perf_counter()
    while answers < requests:
        due = min(requests, int((time.perf_counter() - begin) * rate) + 1)
        while sent < due and idle:
            connection = idle.popleft()
            connection.sock.sendall(connection.frame)
            sent += 1
        for connection in _answered(poller, by_fd, error_of, 1 / rate):
            answers += 1
            idle.append(connection)


def _answered(
    poller: select.epoll,
    by_fd: dict[int, Connection],
    error_of: Callable[[bytearray], int],
    timeout: float | None,
) -> Iterator[Connection]:
    """Connections with a complete response."""
    for fd, _event in poller.poll(timeout):
        connection = by_fd[fd]
        if not connection.answered():
            continue
        error = error_of(connection.received)
        if error:
            raise RuntimeError(f"the broker answered with error {error}")
        connection.received.clear()
        yield connection


ERRORS = {"produce": wire.produce_error, "fetch": wire.fetch_error, "commit": wire.commit_error}


def frames(options: argparse.Namespace) -> list[bytes]:
    """One frame per connection, spread over the partitions (and, for fetches, over the offsets)."""
    batch = wire.record_batch(options.record_bytes, options.records)
    made = []
    for number in range(options.connections):
        partition = number % options.partitions
        if options.api == "produce" and options.at_once:
            made.append(wire.produce_frame_of(options.topic, range(options.partitions), batch))
        elif options.api == "produce":
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
    seconds = run(
        connections,
        options.requests,
        lambda answer: error_of(options.topic, bytes(answer[:512])),
        options.rate,
    )
    print(json.dumps({"requests": options.requests, "seconds": seconds}))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api", choices=list(ERRORS), required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--at-once", action="store_true", help="each produce request has all partitions")
    parser.add_argument("--groups", type=int, default=1, help="commits are spread over so many groups")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument(
        "--rate", type=int, default=0, help="requests per second; 0: as fast as they are answered"
    )
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--records", type=int, default=1, help="in the batch of a produce request")
    parser.add_argument("--fetch-bytes", type=int, default=65536, help="how much a fetch may bring")
    parser.add_argument("--end-offset", type=int, default=0, help="fetches are spread over 0..end-offset")
    return parser.parse_args()


if __name__ == "__main__":
    main()
