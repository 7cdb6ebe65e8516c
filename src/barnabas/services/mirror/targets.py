"""What a lane needs of a target: where its partitions stand, and a way to append to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from barnabas.services.mirror.partition import Payload, Standing
from barnabas.common.types import TopicPartition, Uuid


class MirroredTopicIds(NamedTuple):
    """A topic of the source and its mirror."""

    source: str
    source_id: Uuid
    target: str


class Target(Protocol):
    """Places are those of the source; the target knows what they are called there."""

    async def standings(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Standing]:
        """Those that the target answers for."""
        ...

    async def append(self, payloads: Sequence[Payload]) -> Mapping[TopicPartition, Standing]:
        """Where each partition stands afterwards, and what went wrong; a partition that is missing is unknown."""
        ...
