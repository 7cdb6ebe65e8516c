"""Cost of metadata as a cluster grows: `python -m benchmarks.scale`. The figures are in docs/scale.md.

Everything is computed in one process and measured as CPU time, so that other load has little effect. The image is
synthetic: topics of ten partitions with three replicas each, spread over the brokers.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.client.placement.planner import Site, rebalance
from barnabas.cluster.deltas import BrokerStored, Delta, TopicCreated, apply
from barnabas.cluster.image import EMPTY_IMAGE, BrokerState, MetadataImage, PartitionState, TopicState
from barnabas.cluster.snapshots import MetadataEntry, image_from_snapshot, snapshot_of
from barnabas.cluster.zookeeper.layout import decode_entry, encode_entry
from barnabas.common.types import TopicPartition, new_uuid
from barnabas.controller import brokers as decisions
from barnabas.controller.decision import ControllerPolicy

SIZES = (1_000, 10_000, 50_000)
BROKERS = 5
PARTITIONS_OF_A_TOPIC = 10
HEADINGS = (
    "partitions",
    "image MB",
    "snapshot MB",
    "write s",
    "read s",
    "fence a broker s",
    "its entry KB",
    "apply it s",
)

T = TypeVar("T")


def main() -> None:
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "---|" * len(HEADINGS))
    for partitions in SIZES:
        print("| " + " | ".join(measured(partitions)) + " |")
    for partitions in SIZES[:2]:
        print(f"plan for a new broker among {partitions:,} partitions: {planning(partitions):.2f} s")


def measured(partitions: int) -> list[str]:
    image = make_image(partitions)
    writing, text = cpu(lambda: encode_entry(MetadataEntry(image.offset, 1, list(snapshot_of(image)))))
    reading, _ = cpu(lambda: image_from_snapshot(decode_entry(text, "snapshot").deltas, image.offset))
    memory = memory_of(lambda: image_from_snapshot(decode_entry(text, "snapshot").deltas, image.offset))
    deciding, deltas = cpu(lambda: fence(image))
    entry = encode_entry(MetadataEntry(image.offset + 1, 1, deltas))
    applying, _ = cpu(lambda: apply(image, deltas))
    return [
        f"{partitions:,}",
        f"{memory / 1e6:.1f}",
        f"{len(text) / 1e6:.2f}",
        f"{writing:.3f}",
        f"{reading:.3f}",
        f"{deciding:.3f}",
        f"{len(entry) / 1e3:.0f}",
        f"{applying:.3f}",
    ]


def make_image(partitions: int) -> MetadataImage:
    deltas: list[Delta] = [BrokerStored(make_broker(broker)) for broker in range(1, BROKERS + 1)]
    for number in range(partitions // PARTITIONS_OF_A_TOPIC):
        states = [PartitionState(at, at, at[0]) for at in map(replicas, range(PARTITIONS_OF_A_TOPIC))]
        deltas.append(TopicCreated(TopicState(f"topic-{number}", new_uuid(), tuple(states))))
    return apply(EMPTY_IMAGE, deltas)


def make_broker(broker: int) -> BrokerState:
    return BrokerState(id=broker, epoch=broker, host=f"host-{broker}", fenced=False)


def replicas(index: int) -> tuple[int, ...]:
    return tuple([(index + step) % BROKERS + 1 for step in range(3)])


def fence(image: MetadataImage) -> list[Delta]:
    deltas, _ = decisions.fence(image, 1, ControllerPolicy())
    return deltas


def planning(partitions: int) -> float:
    """CPU time of a reassignment plan after an empty sixth broker has joined."""
    assignment = {
        TopicPartition(f"topic-{number // PARTITIONS_OF_A_TOPIC}", number % PARTITIONS_OF_A_TOPIC): replicas(
            number
        )
        for number in range(partitions)
    }
    seconds, _ = cpu(lambda: rebalance(assignment, sites(range(1, BROKERS + 2))))
    return seconds


def sites(ids: Iterable[int]) -> list[Site]:
    return [Site(broker) for broker in ids]


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    gc.collect()
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def memory_of(work: Callable[[], T]) -> int:
    tracemalloc.start()
    kept = work()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return used


if __name__ == "__main__":
    main()
