"""What is measured of mirror topics, read when somebody looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from barnabas.cluster.image import MetadataImage
from barnabas.metrics import mirror_catalogue
from barnabas.metrics.registry import Registry, Sample
from barnabas.protocol.messages.mirror import MirrorState
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.mirrors import Mirrors


def declare_mirror_metrics(
    registry: Registry, image: Callable[[], MetadataImage], replicas: ReplicaManager, mirrors: Mirrors
) -> None:
    registry.computed(mirror_catalogue.MIRROR_PARTITIONS, lambda: _by_state(image(), replicas))
    registry.read_by(mirror_catalogue.MIRROR_FAILED, lambda: _failed(image()))
    registry.computed(mirror_catalogue.MIRROR_LAG, lambda: _lags(mirrors))


def _failed(image: MetadataImage) -> int:
    return sum(
        len(mirror.partitions)
        if mirror.state == MirrorState.FAILED
        else sum(bool(each.failure) for each in mirror.partitions)
        for mirror in image.mirrors.values()
    )


def _by_state(image: MetadataImage, replicas: ReplicaManager) -> Iterator[Sample]:
    counts: Counter[str] = Counter()
    for topic_id, mirror in image.mirrors.items():
        for partition in replicas.by_id.get(topic_id, {}).values():
            if partition.is_leader:
                is_failed = mirror.partition(partition.index).failure
                counts[(MirrorState.FAILED if is_failed else MirrorState(mirror.state)).name] += 1
    for state, count in sorted(counts.items()):
        yield Sample("", (("state", state),), count)


def _lags(mirrors: Mirrors) -> Iterator[Sample]:
    for partition, end in mirrors.source_ends.items():
        labels = (("topic", partition.topic), ("partition", str(partition.index)))
        yield Sample("", labels, max(end - partition.log.log_end_offset, 0))
