"""One topic for broadcast, unicast and work sharing simultaneously, with confluent-kafka."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Consumer, Message

from barnabas.testing import EmbeddedBroker
from tests.share.test_with_clients import TIMEOUT_S, publish, set_group, share_consumer

RECORDS = 600
VALUES = {str(number) for number in range(RECORDS)}


class Reader(threading.Thread):
    """Collects records until it is stopped."""

    def __init__(self, poll: Callable[[], list[Message]], close: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.found: list[tuple[int, int, str]] = []
        self._poll, self._close = poll, close
        self._stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stopped.is_set():
            for message in self._poll():
                assert message.error() is None
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.found.append((partition, offset, (message.value() or b"").decode()))
        self._close()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    @property
    def is_in_order(self) -> bool:
        """Records of each partition arrived in log order."""
        by_partition: dict[int, list[int]] = {}
        for partition, offset, _ in self.found:
            by_partition.setdefault(partition, []).append(offset)
        return all(offsets == sorted(offsets) for offsets in by_partition.values())


def member(bootstrap: str, group: str, topic: str) -> Reader:
    """Of an ordinary consumer group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    return Reader(lambda: consumer.consume(100, 0.2), consumer.close)


def worker(bootstrap: str, group: str, topic: str) -> Reader:
    """A share group worker that accepts with every poll."""
    consumer = share_consumer(bootstrap, group, topic, mode="implicit")

    def poll() -> list[Message]:
        messages = list(consumer.poll(0.2))
        consumer.commit_sync(TIMEOUT_S)
        return messages

    return Reader(poll, consumer.close)


def values(*readers: Reader) -> Counter[str]:
    return Counter(value for reader in readers for _, _, value in reader.found)


def test_one_topic_serves_broadcast_unicast_and_work_sharing_at_once() -> None:
    with EmbeddedBroker() as broker:
        bootstrap, topic = broker.bootstrap_servers, broker.create_topic(partitions=2)
        set_group(bootstrap, "workers", share_auto_offset_reset="earliest")
        broadcast = [member(bootstrap, group, topic) for group in ("search", "mail")]
        unicast = [member(bootstrap, "billing", topic) for _ in range(2)]
        sharing = [worker(bootstrap, "workers", topic) for _ in range(3)]
        publish(bootstrap, topic, sorted(VALUES))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if all(
                values(*each).keys() >= VALUES for each in (broadcast[:1], broadcast[1:], unicast, sharing)
            ):
                break
            time.sleep(0.05)
        for reader in (*broadcast, *unicast, *sharing):
            reader.stop()
    once = Counter(VALUES)
    assert values(broadcast[0]) == once  # every group gets all records
    assert values(broadcast[1]) == once
    assert values(*unicast) == once  # one group: each partition is one member's
    assert values(*sharing) == once  # each record has one worker, in any partition
    assert all(reader.is_in_order for reader in (*broadcast, *unicast))
