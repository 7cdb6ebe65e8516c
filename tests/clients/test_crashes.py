"""kill -9 under load: acknowledged records survive, once and in order."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from tests.clients.conftest import consume, produce
from tests.support.brokers import BrokerProcess
from tests.support.waiting import until

ROUNDS = 3


class SteadyProducer:
    """Sends numbered records until it is stopped, and knows which of them were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.acknowledged: dict[int, int] = {}
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                **settings,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> SteadyProducer:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            try:
                self._producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=self._delivered)
            except BufferError:  # the broker is away for so long that the queue is full
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            number += 1
            if number % 50 == 0:
                time.sleep(0.002)

    def _delivered(self, error: object, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is None and value is not None and offset is not None:
            self.acknowledged[int(value)] = offset


@pytest.mark.parametrize("fsync", ["never", pytest.param("auto", marks=pytest.mark.extended)])
def test_acknowledged_records_survive_kill_9_under_load(tmp_path: Path, fsync: str) -> None:
    with BrokerProcess(tmp_path, f"barnabas.acks.all.fsync={fsync}") as broker:
        produce(broker.bootstrap_servers, "load", [b"-1"])
        producer = SteadyProducer(broker.bootstrap_servers, "load", **{"enable.idempotence": True}).start()
        for _ in range(ROUNDS):
            before = len(producer.acknowledged)
            until(lambda before=before: len(producer.acknowledged) > before + 500, "acknowledgements")  # type: ignore[misc]
            broker.kill()
            broker.start()
        producer.stop()
        end = max(producer.acknowledged.values()) + 1
        stored = [int(message.value() or b"") for message in consume(broker.bootstrap_servers, "load", end)]
    assert all(stored[offset] == number for number, offset in producer.acknowledged.items())
    assert stored == sorted(set(stored)), "an idempotent producer's records are there once and in order"


def test_the_leader_epoch_rises_with_every_start(tmp_path: Path) -> None:
    epochs: list[int] = []
    broker = BrokerProcess(tmp_path)
    for end in (broker.kill, broker.stop, broker.stop):
        broker.start()
        produce(broker.bootstrap_servers, "epochs", [b"v"])
        message = consume(broker.bootstrap_servers, "epochs", 1, start=len(epochs))[0]
        epoch = message.leader_epoch()
        assert epoch is not None
        epochs.append(epoch)
        end()
    assert epochs == sorted(set(epochs))


def test_a_clean_stop_leaves_nothing_to_recover(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    produce(broker.bootstrap_servers, "clean", [b"%d" % number for number in range(100)])
    assert broker.stop() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with broker:
        assert len(consume(broker.bootstrap_servers, "clean", 100)) == 100


def test_a_second_broker_is_kept_out_of_the_folder(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path), pytest.raises(AssertionError, match=r"in use|another"):
        BrokerProcess(tmp_path).start()
