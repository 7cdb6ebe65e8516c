"""Group records that exceed the limits of their topic."""

from __future__ import annotations

from pathlib import Path

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.server import ask, raw_broker, scenario

LARGE = 2000
RECORD_LIMIT = IncrementalAlterConfigsRequest(
    resources=[
        IncrementalAlterConfigsAlterConfigsResource(
            resource_type=2,
            resource_name="__consumer_offsets",
            configs=[IncrementalAlterConfigsAlterableConfig(name="max.message.bytes", value="500")],
        )
    ]
)
COMMIT = OffsetCommitRequest(
    group_id="another",
    topics=[
        OffsetCommitRequestTopic(
            name="t",
            partitions=[OffsetCommitRequestPartition(0, 1, committed_metadata="x" * LARGE)],
        )
    ],
)


@scenario
async def test_too_large_group_record_gets_an_error(tmp_path: Path) -> None:
    """Kafka returns UNKNOWN_SERVER_ERROR to members, and this error to a commit."""
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x" * LARGE)],
    )
    async with raw_broker(tmp_path, group_initial_rebalance_delay_ms="0") as broker:
        client = await broker.connect()
        await ask(client, CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
        joined = await broker.coordinator_answers(client, join, 3, "g", 0)
        assert not (await ask(client, RECORD_LIMIT, 1)).responses[0].error_code
        rows = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
        sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=rows)
        assert (await ask(client, sync, 2)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        committed = await ask(client, COMMIT, 7)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
