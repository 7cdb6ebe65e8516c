"""Minimum rates and latencies, relative to the machine's speed without a broker: `make endurance`."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import wire
from tests.support.brokers import BrokerProcess
from tests.support.clients import RawConnection
from tests.support.topics import create_topic, read_to_end

RECORD_BYTES = 100
RECORDS = 500_000
EXCHANGES = 3_000
CHUNK = 1 << 16
# Required on an idle machine. On a busy one the floor is a share of the rate of a bare socket and write in the same
# minute (idle: 13 million records per second, 15 microseconds per exchange).
RECORDS_PER_SECOND = 100_000
SHARE_OF_MACHINE = 1 / 60
MILLISECONDS = {50: 2.0, 99: 20.0}
TIMES_OF_MACHINE = {50: 40.0, 99: 60.0}


def store_and_answer(listening: socket.socket, path: str) -> None:
    """The machine's baseline: receive, write, and respond on request."""
    for _ in range(2):
        connection, _address = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, open(path, "ab", buffering=0) as file:
            while data := connection.recv(CHUNK):
                file.write(data)
                if data.endswith(b"?"):
                    connection.send(b"!")


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments = (listening, str(tmp_path / "bare"))
        process = multiprocessing.get_context("fork").Process(target=store_and_answer, args=arguments)
        process.start()
        yield listening.getsockname()
        process.kill()
        process.join()


@pytest.mark.extended
def test_rates_and_latencies_stay_above_the_floor(tmp_path: Path, bare: tuple[str, int]) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create_topic(broker.bootstrap_servers, "floor", 1)
        create_topic(broker.bootstrap_servers, "exchanges", 1)
        rates = {
            "machine": bare_rate(bare),
            "produce": produce_rate(broker.bootstrap_servers),
            "consume": consume_rate(broker.bootstrap_servers),
        }
        machine, ours = bare_exchanges(bare), broker_exchanges(broker.port)
        assert len(read_to_end(broker.bootstrap_servers, "exchanges", 1)) == EXCHANGES

    print(f"\nrecords/s: { {name: round(rate) for name, rate in rates.items()} }")  # noqa: T201
    wanted = min(RECORDS_PER_SECOND, rates["machine"] * SHARE_OF_MACHINE)
    assert rates["produce"] >= wanted
    assert rates["consume"] >= wanted
    for percent, limit in MILLISECONDS.items():
        bare_ms, broker_ms = percentile(machine, percent), percentile(ours, percent)
        print(f"p{percent}: {broker_ms:.3f} ms, machine {bare_ms:.3f} ms")  # noqa: T201
        assert broker_ms <= max(limit, TIMES_OF_MACHINE[percent] * bare_ms)


def bare_rate(address: tuple[str, int]) -> float:
    sent = 20 * RECORDS * RECORD_BYTES
    chunk = bytes(CHUNK)
    with socket.create_connection(address) as connection:
        began = time.perf_counter()
        for _ in range(sent // CHUNK):
            connection.sendall(chunk)
        connection.sendall(b"?")
        assert connection.recv(1) == b"!"
        return sent / RECORD_BYTES / (time.perf_counter() - began)


def produce_rate(servers: str) -> float:
    settings = {"linger.ms": 5, "batch.size": 1 << 18, "queue.buffering.max.messages": RECORDS}
    producer = Producer({"bootstrap.servers": servers, "acks": 1, **settings})
    value = bytes(RECORD_BYTES)
    producer.list_topics("floor", 60)  # connected before the clock starts
    began = time.perf_counter()
    for _ in range(RECORDS):
        producer.produce("floor", value, partition=0)
    assert producer.flush(120) == 0
    return RECORDS / (time.perf_counter() - began)


def consume_rate(servers: str) -> float:
    settings = {"group.id": "floor", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    with closing(Consumer({"bootstrap.servers": servers, **settings})) as consumer:
        consumer.assign([TopicPartition("floor", 0, 0)])
        seen, began = 0, time.perf_counter()
        while seen < RECORDS:
            seen += len(consumer.consume(10_000, 60))
        return RECORDS / (time.perf_counter() - began)


def bare_exchanges(address: tuple[str, int]) -> list[float]:
    frame = wire.produce_frame("exchanges", 0, wire.record_batch(RECORD_BYTES, 1)) + b"?"
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange() -> None:
            connection.sendall(frame)
            assert connection.recv(1) == b"!"

        return timed(exchange)


def broker_exchanges(port: int) -> list[float]:
    """Produce requests with acks=1, one after the other."""
    frame = wire.produce_frame("exchanges", 0, wire.record_batch(RECORD_BYTES, 1))
    with RawConnection(port) as connection:

        def exchange() -> None:
            connection.send(frame)
            body = connection.receive()
            assert body is not None
            assert wire.produce_error("exchanges", bytes(4) + body) == 0

        return timed(exchange)


def timed(exchange: Callable[[], None]) -> list[float]:
    taken = []
    for _ in range(EXCHANGES):
        began = time.perf_counter()
        exchange()
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)


def percentile(times: list[float], percent: int) -> float:
    return times[len(times) * percent // 100]
