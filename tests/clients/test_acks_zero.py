"""acks=0 while the broker is killed: the producer never blocks, and the log stays valid."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.support.brokers import BrokerProcess
from tests.support.topics import create_topic, read_to_end

ROUNDS = 2
MAX_CALL = 20.0  # seconds, on a busy machine; a call that waits for a broker takes message.timeout.ms


def filled(number: int) -> bytes:
    """A value that encodes its number and can be verified byte by byte."""
    return b"%d|" % number + bytes(number % 251 for _ in range(200))


def test_records_without_acknowledgement_leave_a_valid_log_when_the_broker_is_killed(tmp_path: Path) -> None:
    settings = {
        "acks": 0,
        "linger.ms": 1,
        "queue.buffering.max.messages": 5000,
        "message.timeout.ms": 300_000,
        "reconnect.backoff.max.ms": 100,
    }
    numbers = itertools.count()
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker.bootstrap_servers, "unacknowledged", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        for _ in range(ROUNDS):
            send_until_stored(producer, numbers, tmp_path)
            broker.kill()
            began = time.monotonic()
            for number in itertools.islice(numbers, 1000):  # into a connection that has ended
                queued(producer, filled(number))
                producer.poll(0)
            assert time.monotonic() - began < MAX_CALL
            broker.start()
        assert producer.flush(60) == 0
        send_until_stored(producer, numbers, tmp_path)
        assert producer.flush(60) == 0
        broker.stop()  # the last record is written
        broker.start()
        stored = read_to_end(broker.bootstrap_servers, "unacknowledged", 1)
    found = [int((message.value() or b"").partition(b"|")[0]) for message in stored]
    assert [message.value() for message in stored] == [filled(number) for number in found]
    assert [message.offset() for message in stored] == list(range(len(stored)))
    assert found == sorted(set(found)), "records are out of order or stored twice"


def send(producer: Producer, numbers: itertools.count[int], count: int) -> None:
    for number in itertools.islice(numbers, count):
        value = filled(number)
        while not queued(producer, value):
            producer.poll(0.1)
        producer.poll(0)


def queued(producer: Producer, value: bytes) -> bool:
    """False while the queue is full: a fast machine fills it before the producer has connected again."""
    try:
        producer.produce("unacknowledged", value, partition=0)
    except BufferError:
        return False
    return True


def send_until_stored(producer: Producer, numbers: itertools.count[int], folder: Path) -> None:
    """Until the log has grown by 100 KB, so that the next kill interrupts a stream."""
    wanted = size_of_log(folder) + 100_000
    deadline = time.monotonic() + 60
    while size_of_log(folder) < wanted:
        assert time.monotonic() < deadline, "no record arrives"
        send(producer, numbers, 100)


def size_of_log(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("unacknowledged-0/*.log"))
