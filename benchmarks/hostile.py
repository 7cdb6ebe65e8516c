"""Effects of one anonymous connection with well-formed messages on a default node: `make hostile`.

Each row sends a message that once blocked the loop, exhausted memory or poisoned a log (issue 12), while another
process pings. The table shows the longest ping, memory growth beyond the size of the frame, and the response.
"""

import argparse
import socket
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from barnabas.common.errors import ErrorCode
from barnabas.handlers.telemetry.subscriptions import DEFAULT_INTERVAL_MS, ClientMetrics
from barnabas.protocol.api import response_class
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.telemetry import PushTelemetryRequest
from barnabas.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.records.batch import MAGIC, BatchHeader, write_crc
from barnabas.records.builder import assemble_batch
from barnabas.records.compression import Codec, compress
from barnabas.records.varints import varint
from benchmarks.loads import pinged
from benchmarks.subjects.brokers import barnabas
from tests.support.programs import free_port

_TOPIC, _COMPACTED = "plain", "compacted"
_MAX_PING_MS, _MAX_MEMORY = 100, 64 << 20
_TIMEOUT_SECONDS = 60.0
_IDLE_CONNECTIONS, _ROUNDS = 1_500, 8
_HOUR_MS = 3_600_000


@dataclass
class Node:
    """A default node in a separate process, and its log output."""

    port: int
    http_port: int
    pid: int
    output: Path

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=_TIMEOUT_SECONDS) as sock:
            yield sock

    def ask(self, message: Message, version: int, client_id: str = "hostile") -> str:
        """Send one request on a new connection and describe the response."""
        return self.send(frame(message, version, client_id), type(message), version)

    def send(self, data: bytes, request: type[Message], version: int) -> str:
        with self.connected() as sock:
            with suppress(ConnectionError):
                sock.sendall(data)
            return described(sock, request, version)

    def memory(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(field))

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


def frame(message: Message, version: int, client_id: str = "hostile") -> bytes:
    return b"".join(encode_request(RequestHeader(message.api_key, version, 1, client_id), message))


def described(sock: socket.socket, request: type[Message], version: int) -> str:
    """Error codes of a response, or "connection closed"."""
    try:
        length = int.from_bytes(_exactly(sock, 4), "big")
        data = _exactly(sock, length)
    except ConnectionError:
        return "connection closed"
    response = decode_response(request.api_key, version, response_class(request.api_key), memoryview(data))[1]
    names = sorted({ErrorCode(code).name for code in _codes(response)})
    return f"{', '.join(names)} ({length:,} bytes)"


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = sock.recv(size - len(data))
        if not received:
            raise ConnectionError
        data += received
    return bytes(data)


def _codes(struct_: Struct) -> Iterator[int]:
    for field in struct_.FIELDS:
        value = getattr(struct_, field.name)
        if field.name.endswith("error_code"):
            yield value
        for item in value if isinstance(value, list) else ():
            if isinstance(item, Struct):
                yield from _codes(item)


# Attacks


def batch(
    data: bytes, *, records: int = 1, codec: int = 0, ahead_ms: int = 0, raw: bytes | None = None
) -> bytes:
    """A batch with these records; `raw` is stored unmodified, regardless of the codec."""
    now = int(time.time() * 1000) + ahead_ms
    header = BatchHeader(0, 0, -1, MAGIC, 0, codec, records - 1, now, now, -1, -1, -1, records)
    if raw is None:
        return bytes(assemble_batch(header, data))
    made = assemble_batch(header._replace(attributes=0), raw)
    struct.pack_into(">h", made, 21, codec)
    write_crc(made, 0, len(made))
    return bytes(made)


def produce(data: bytes, topic: str = _TOPIC) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=memoryview(data))
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )


def headers_bomb(node: Node) -> str:
    headers = 5_000_000
    body = b"\x00\x00\x00\x01\x01" + varint(headers) + b"\x00\x01" * headers
    data = batch(varint(len(body)) + body, codec=Codec.ZSTD, ahead_ms=2 * _HOUR_MS)
    return f"{len(data)} bytes: " + "; ".join(
        node.ask(produce(data, topic), 9) for topic in (_TOPIC, _COMPACTED)
    )


def pattern(node: Node) -> str:
    for letters in (32, 60):
        request = InitProducerIdRequest(transactional_id="a" * letters, transaction_timeout_ms=60_000)
        node.ask(FindCoordinatorRequest(coordinator_keys=["a"], key_type=1), 4)  # creates the internal topic
        for _ in range(100):  # the coordinator may be loading
            if node.ask(request, 4).startswith("NONE"):
                break
            time.sleep(0.1)
    return node.ask(ListTransactionsRequest(transactional_id_pattern="(a|aa)*b"), 2)


def configs(node: Node) -> str:
    broker = DescribeConfigsResource(resource_type=4, resource_name="1")
    return node.ask(DescribeConfigsRequest(resources=[broker] * 2000), 4)


def structs(node: Node) -> str:
    answers = []
    for topics in (400_000, (10 << 20) // 3):
        head = frame(AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), 3)[4:-2]
        body = head + _unsigned_varint(topics + 1) + b"\x01\x01\x00" * topics + b"\x00"
        answers.append(node.send(struct.pack(">i", len(body)) + body, AddPartitionsToTxnRequest, 3))
    return "; ".join(answers)


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def announcements(node: Node) -> str:
    """Three connections that announce 100 MiB each, then a normal request that arrives in two reads."""
    start = struct.pack(">ihhih", 100 << 20, 0, 9, 1, 4) + b"x" * 36
    with node.connected() as one, node.connected() as two, node.connected() as three:
        for sock in (one, two, three):
            sock.sendall(start)
        time.sleep(0.2)
        with node.connected() as honest:
            data = frame(produce(batch(b"\x0c\x00\x00\x00\x01\x01\x00" * 1)), 9)
            honest.sendall(data[:50])
            time.sleep(0.05)
            begin = time.perf_counter()
            honest.sendall(data[50:])
            answer = described(honest, ProduceRequest, 9)
            return f"{answer} after {(time.perf_counter() - begin) * 1000:.0f} ms"


def poison(node: Node) -> str:
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    sent = {
        "garbage": batch(b"garbage that is no record"),
        "garbage marked zstd": batch(b"", raw=b"no zstd at all", codec=Codec.ZSTD),
        "a count too high": batch(record, records=3),
        "2 billion records": batch(record, records=2_000_000_000),
        "2 billion, zstd": batch(record, records=2_000_000_000, codec=Codec.ZSTD),
    }
    return "; ".join(f"{name}: {node.ask(produce(data), 9)}" for name, data in sent.items())


def powers(node: Node) -> str:
    topic = FetchTopic(topic=_TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
    marker = WritableTxnMarker(
        producer_id=1,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=_TOPIC, partition_indexes=[0])],
    )
    answers = {
        "replica fetch": node.ask(FetchRequest(replica_id=1, topics=[topic]), 11),
        "commit marker": node.ask(WriteTxnMarkersRequest(markers=[marker]), 1),
        "__consumer_offsets": node.ask(
            produce(batch(b"\x0c\x00\x00\x00\x01\x01\x00"), "__consumer_offsets"), 9, "__admin_client"
        ),
    }
    return "; ".join(f"{name}: {answer}" for name, answer in answers.items())


def connections(node: Node) -> str:
    """Open and close many connections repeatedly: memory must not grow from round to round."""
    sizes = []
    for _ in range(_ROUNDS):
        socks = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(_IDLE_CONNECTIONS)]
        for sock in socks:
            sock.sendall(struct.pack(">ihhih", 10, 18, 0, 1, 0))
        for sock in socks:
            sock.recv(4096)
        time.sleep(1.5)  # until the broker has frozen live objects (gc.freeze)
        for sock in socks:
            sock.close()
        time.sleep(0.5)
        sizes.append(node.memory("VmRSS") >> 20)
    return f"{sizes[0]} MB after the first round, {sizes[-1]} MB after {_ROUNDS}"


def forged_lines(node: Node) -> str:
    before = len(node.output.read_bytes().splitlines())
    topic = AlterReplicaLogDirTopic(name="x\nERROR forged", partitions=list(range(20_000)))
    answer = node.ask(
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])]), 2
    )
    lines = node.output.read_bytes().splitlines()[before:]
    forged = sum(line.startswith(b"ERROR forged") for line in lines)
    return f"{answer}; {len(lines)} lines, {forged} forged"


def gzip_members(node: Node) -> str:
    empty = zlib.compress(b"", wbits=31)
    data = batch(b"", raw=empty * ((1 << 20) // len(empty) - 10), codec=Codec.GZIP)
    return node.ask(produce(data[: (1 << 20) - 100] if len(data) > (1 << 20) else data, _COMPACTED), 9)


def metrics(node: Node) -> str:
    """Many clients that never read the response, then one that does."""
    socks = [socket.create_connection(("127.0.0.1", node.http_port)) for _ in range(32)]
    try:
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with socket.create_connection(("127.0.0.1", node.http_port), timeout=10) as sock:
            begin = time.perf_counter()
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            try:
                first = sock.recv(100)
            except (ConnectionError, TimeoutError) as error:
                return f"no answer: {error}"
            return f"{first[:15]!r} after {(time.perf_counter() - begin) * 1000:.0f} ms"
    finally:
        for sock in socks:
            sock.close()


def telemetry(node: Node) -> str:
    """Two million empty data points, pushed to the subscription of a broker without client metrics."""
    instance, points = bytes(15) + b"\x2a", b"\x0a\x00" * 2_000_000
    for number in (5, 2, 2, 1):  # gauge, metric, scope, resource
        points = bytes([number << 3 | 2]) + _unsigned_varint(len(points)) + points
    request = PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=ClientMetrics((), DEFAULT_INTERVAL_MS).subscription_id(instance),
        compression_type=Codec.ZSTD,
        metrics=compress(Codec.ZSTD, points),
    )
    return node.ask(request, 0)


def joins(node: Node) -> str:
    """Fourteen members that subscribe to a quarter of a million topics each."""
    number = ((1 << 20) - 100) // 4
    metadata = struct.pack(">hi", 1, number) + b"\0\x02ab" * number + bytes(8)
    request = JoinGroupRequest(
        group_id="hostile",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=5_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    node.ask(FindCoordinatorRequest(coordinator_keys=["hostile"], key_type=0), 4)  # creates its topic
    time.sleep(1)
    with ThreadPoolExecutor(14) as threads:
        return "; ".join(sorted(set(threads.map(lambda _: node.ask(request, 3), range(14)))))


ROWS: dict[str, Callable[[Node], str]] = {
    "1 five million headers": headers_bomb,
    "2 a pattern that backtracks": pattern,
    "3 one name 2,000 times": configs,
    "4 structs of three bytes": structs,
    "5 announced, not sent": announcements,
    "6 poison": poison,
    "7 powers of brokers": powers,
    "8 connections that come and go": connections,
    "9 forged log lines": forged_lines,
    "10 empty gzip members": gzip_members,
    "11 /metrics unread": metrics,
    "12 two million points": telemetry,
    "13 names of topics": joins,
}


@contextmanager
def running_node(scratch: Path) -> Iterator[Node]:
    http_port = free_port()
    broker = barnabas("node", scratch / "data", {"barnabas.metrics.listen": f"127.0.0.1:{http_port}"}).start()
    try:
        node = Node(broker.port, http_port, broker.pid, scratch / "data.out")
        compact = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        topics = [
            CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1),
            CreatableTopic(name=_COMPACTED, num_partitions=1, replication_factor=1, configs=compact),
        ]
        node.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        yield node
    finally:
        broker.stop()


def run(node: Node, name: str) -> bool:
    node.forget_peak()
    before, begin = node.memory("VmRSS"), time.perf_counter()
    with pinged(node.port) as pings:
        answer = ROWS[name](node)
    longest = pings["longest"] * 1000
    seconds, grown = time.perf_counter() - begin, node.memory("VmHWM") - before
    good = longest <= _MAX_PING_MS and grown <= _MAX_MEMORY
    print(f"| {name} | {seconds:.1f} s | {longest:.0f} ms | {grown / 1e6:.0f} MB | {answer} |", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="numbers of rows; all of them without")
    options = parser.parse_args().rows
    print("| row | took | longest ping | memory grew by | answer |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for number, name in zip(count(1), ROWS, strict=False):
            if not options or str(number) in options:
                with running_node(Path(folder) / str(number)) as node:
                    results.append(run(node, name))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
