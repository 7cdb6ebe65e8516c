"""Minimal `barnabas mirror --on-truncation=follow`: ask for the end of the target, fetch, append."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.mirror import (
    AlteredMirrorPartition,
    AlteredMirrorTopic,
    AlterMirrorsRequest,
    AppendedPartition,
    AppendMirroredRequest,
    MirrorAction,
    MirroredPartition,
    MirroredTopic,
)
from simulation.clients import RETRIABLE, Violation
from simulation.mirrors.source import Fetched, Source
from simulation.network import CLIENT
from simulation.world import World

MIRRORED, LINK, SOURCE_CLUSTER = "mirrored", "link", "source"
SOURCE_ID = bytes(15) + b"\x01"
EXPECTED = RETRIABLE | {
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.POLICY_VIOLATION,  # already promoted
    ErrorCode.INVALID_REQUEST,  # not truncated: the end offset has changed
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NEW_LEADER_ELECTED,
}


def altered(action: MirrorAction, **more: Any) -> AlterMirrorsRequest:
    topic = AlteredMirrorTopic(name=MIRRORED, action=action, source_name=MIRRORED, **more)
    return AlterMirrorsRequest(link=LINK, source_cluster_id=SOURCE_CLUSTER, topics=[topic])


class MirrorProcess:
    def __init__(self, world: World, source: Source) -> None:
        self._world = world
        self._rng = world.rng
        self._source = source
        self._known: AppendedPartition | None = None
        self.cuts = 0
        self.is_to_stop = False

    async def run(self) -> None:
        while not self.is_to_stop:
            await self._step()
            await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.05, 0.2)))

    async def _step(self) -> None:
        if self._known is None:
            await self._append(MirroredPartition(source_log_start_offset=self._source.log_start))
            return
        known = self._known
        found = self._source.fetch(known.log_end_offset, known.last_epoch)
        await self._append(self._wanted(known, found))

    def _wanted(self, known: AppendedPartition, found: Fetched) -> MirroredPartition:
        source = self._source
        partition = MirroredPartition(
            source_high_watermark=source.end,
            source_log_start_offset=source.log_start,
            records=b"".join(each.data for each in found.batches),
        )
        if found.diverging_epoch >= 0:
            partition.truncate_to, partition.truncate_epoch = found.diverging_end, found.diverging_epoch
            partition.truncate_to = min(partition.truncate_to, known.log_end_offset)
        elif found.is_gone:
            # The offset was deleted before it was mirrored, or is past the end: start over.
            partition.truncate_to = min(max(source.log_start, 0), source.end)
        if partition.truncate_to >= 0:
            self.cuts += 1
            partition.expected_log_end = known.log_end_offset
        return partition

    async def _append(self, partition: MirroredPartition) -> None:
        servers = self._world.network.servers
        image = self._rng.choice(list(servers.values())).image if servers else self._world.image()
        topic = image.topics.get(MIRRORED)
        if topic is None:
            return
        state = topic.partitions[0]
        partition.leader_epoch = state.leader_epoch
        request = AppendMirroredRequest(
            timeout_ms=1500, topics=[MirroredTopic(topic.topic_id, SOURCE_ID, [partition])]
        )
        known, self._known = self._known, None
        try:
            response = await self._world.network.send(CLIENT, state.leader, request)
        except KafkaError:
            return
        answer: AppendedPartition = response.topics[0].partitions[0]
        if answer.error_code == ErrorCode.NONE:
            self._known = answer
        elif answer.error_code == ErrorCode.NEW_LEADER_ELECTED:
            await self._raise_epoch()
        elif answer.error_code not in EXPECTED:
            raise Violation(f"the mirror was answered {answer} to {partition} at {known}")

    async def _raise_epoch(self) -> None:
        epoch = AlteredMirrorPartition(index=0, min_leader_epoch=self._source.epoch)
        await self.alter(altered(MirrorAction.NONE, partitions=[epoch]))

    async def alter(self, request: AlterMirrorsRequest) -> bool:
        """Send the request; return True if the controller applied it."""
        try:
            controller = self._world.image().controller_id
            response = await self._world.network.send(CLIENT, controller, request)
        except KafkaError:
            return False
        return not response.topics[0].error_code
