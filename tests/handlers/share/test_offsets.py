"""Administration of share group offsets."""

from __future__ import annotations

from pathlib import Path

from barnabas.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.server import ask, raw_broker, scenario

HIGHEST = (1 << 63) - 1
STARTS = {0: 0, 1: 0, HIGHEST: 0}


@scenario
async def test_lag_after_any_start_offset_is_known(tmp_path: Path) -> None:
    rows = [AlterShareGroupOffsetsRequestPartition(index, start) for index, start in enumerate(STARTS)]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=rows)
    alter = AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])
    wanted = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 1, 2])
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[wanted])
    async with raw_broker(tmp_path) as broker:
        client = await broker.connect()
        await ask(client, CreateTopicsRequest(topics=[CreatableTopic("t", 3, 1)]), 5)
        await broker.coordinator_answers(client, alter, 0, "g", 0)
        described = await ask(client, DescribeShareGroupOffsetsRequest(groups=[group]), 1)
    found = {row.start_offset: row.lag for row in described.groups[0].topics[0].partitions}
    assert found == STARTS
