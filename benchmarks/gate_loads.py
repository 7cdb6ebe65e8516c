"""Loads of the gate: the most common producer and consumer requests, each with a fixed number of requests."""

import socket
from dataclasses import dataclass

from benchmarks import wire

_FETCH_BYTES = 4096  # small: measures the cost of a request, not of copying bytes
_FETCHED_RECORDS = 64


@dataclass(frozen=True)
class Load:
    name: str
    requests: int
    """Requests per round: enough for about a second of CPU, since the kernel accounts in hundredths."""
    api: str = "produce"
    record_bytes: int = 100
    records: int = 1
    connections: int = 20
    rate: int = 0
    """Requests per second; 0: as fast as they are answered."""

    def frame(self, topic: str) -> bytes:
        """One request of this load."""
        if self.api == "fetch":
            return wire.fetch_frame(topic, 0, 0, _FETCH_BYTES)
        return wire.produce_frame(topic, 0, wire.record_batch(self.record_bytes, self.records))

    def prepare(self, connection: socket.socket, topic: str) -> None:
        """Write the records for fetch requests."""
        if self.api == "fetch":
            connection.sendall(wire.produce_frame(topic, 0, wire.record_batch(100, _FETCHED_RECORDS)))
            connection.recv(1024)

    def options(self, topic: str) -> tuple[object, ...]:
        """Arguments of clients/loadgen.py."""
        return (
            *("--api", self.api, "--topic", topic, "--connections", self.connections),
            *("--requests", self.requests, "--rate", self.rate, "--fetch-bytes", _FETCH_BYTES),
            *("--record-bytes", self.record_bytes, "--records", self.records),
        )


# A batch of 100-byte records takes 108 bytes per record, one of 1,000-byte records 1,009.
LOADS = (
    Load("unbatched", 30_000),
    Load("16-KB-of-100-B", 20_000, records=150),
    Load("16-KB-of-1-KB", 20_000, record_bytes=1000, records=16),
    Load("128-KB", 6_000, record_bytes=1000, records=128, connections=4),
    Load("5000-a-second", 15_000, connections=5, rate=5000),
    Load("fetch-4-KB", 60_000, api="fetch"),
)
