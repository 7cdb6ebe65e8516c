"""Committed offsets of a restored cluster: no group may stand behind the end of what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from barnabas.cluster.image import MetadataImage
from barnabas.tiering.restoring.state import GroupOffset
from barnabas.common.types import TopicPartition

NO_EPOCH = -1


def bounded(
    offsets: Iterable[GroupOffset], image: MetadataImage, ends: Mapping[TopicPartition, int]
) -> Iterator[GroupOffset]:
    """Those of topics that come back; where the records are gone, from the end of what is there on."""
    for each in offsets:
        if image.partition(each.topic, each.partition) is None:
            continue
        end = ends.get(TopicPartition(each.topic, each.partition), 0)
        yield each if each.offset <= end else replace(each, offset=end, leader_epoch=NO_EPOCH)
