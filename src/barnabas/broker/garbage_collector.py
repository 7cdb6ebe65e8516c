"""Python's cyclic garbage collector, kept from stopping the event loop.

A full collection looks at every object that holds others: with thousands of partitions that takes 40 ms and more, and
whatever a client has asked for waits. Nearly all of these objects stay for as long as the broker runs, and what is
dropped is freed by its reference count. So full collections are made rare, and what has come to stay is taken out of
them: after the start, and whenever many partitions have changed. For a process that is a broker; one that merely has a
broker in it, such as a test, keeps its collector as it is.
"""

from __future__ import annotations

import gc
from collections.abc import Collection

from barnabas.cluster.deltas import Delta, PartitionChanged, PartitionsAdded, TopicCreated
from barnabas.cluster.image import MetadataImage

# New objects until a collection of the youngest; of those, until one of the next; of those, until a full one.
THRESHOLDS = (10_000, 10, 100)
MANY_PARTITIONS = 100


def collect_rarely() -> None:
    gc.set_threshold(*THRESHOLDS)


def keep_all() -> None:
    """Whatever is in use now stays: the collector need not look at it again."""
    gc.collect(1)  # or recent garbage would stay, too
    gc.freeze()


def keep_many(image: MetadataImage, deltas: Collection[Delta]) -> None:
    """To be called after a change of the metadata has been acted on."""
    if sum(map(_partitions_in, deltas)) >= MANY_PARTITIONS:
        keep_all()


def _partitions_in(delta: Delta) -> int:
    if isinstance(delta, TopicCreated):
        return len(delta.topic.partitions)
    if isinstance(delta, PartitionsAdded):
        return len(delta.partitions)
    return isinstance(delta, PartitionChanged)
