"""Records are sent on plaintext connections with sendfile, without a copy in the broker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.brokers import BrokerProcess

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the hook counts Linux's sendfile"
)

# Imported by Python before anything else: the broker is the real program, with a counter in front of one system call.
COUNTING = """
import os
real, counted = os.sendfile, os.open({file!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def sendfile(*arguments):
    sent = real(*arguments)
    os.write(counted, b"%d\\n" % sent)
    return sent
os.sendfile = sendfile
"""
RECORDS, RECORD_BYTES = 64, 100_000
TIMEOUT = 60


@pytest.fixture
def sent_by_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A line for each call of sendfile in brokers that are started now."""
    file = tmp_path / "sent"
    (tmp_path / "sitecustomize.py").write_text(COUNTING.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return file


def fill(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "batch.size": 1_000_000, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number + bytes(RECORD_BYTES), partition=0)
    assert producer.flush(TIMEOUT) == 0


def read(servers: str, topic: str) -> int:
    """Bytes of all values."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "a", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    total = 0
    for _ in range(RECORDS):
        record = consumer.poll(TIMEOUT)
        assert record is not None
        assert record.error() is None
        total += len(record.value() or b"")
    consumer.close()
    return total


def test_large_slices_are_sent_by_the_kernel(tmp_path: Path, sent_by_kernel: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker.bootstrap_servers, "large")
        consumed = read(broker.bootstrap_servers, "large")
    assert consumed > RECORDS * RECORD_BYTES
    by_kernel = sum(map(int, sent_by_kernel.read_text().split())) if sent_by_kernel.exists() else 0
    assert by_kernel >= consumed
