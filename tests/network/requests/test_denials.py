"""Responses with injected errors."""

from __future__ import annotations

import struct

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.denials import error_response
from barnabas.protocol.api import APIS, request_class
from barnabas.protocol.codec import encode_parts
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.server import echo, heartbeat, heartbeat_frame, scenario, serving


@scenario
async def test_injected_errors_are_returned_in_order_and_number() -> None:
    async with serving(heartbeat(echo)) as server:
        server.dispatcher.inject(12, ErrorCode.REBALANCE_IN_PROGRESS, times=2)
        server.dispatcher.inject(12, ErrorCode.UNKNOWN_MEMBER_ID)
        server.dispatcher.inject(3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        client = await server.connect()
        await client.send(heartbeat_frame(1) * 4)
        errors = [struct.unpack_from(">ibih", await client.response())[3] for _ in range(4)]
        assert errors == [27, 27, 25, 0]


def test_a_produce_error_names_each_partition() -> None:
    partitions = [PartitionProduceData(index=number, records=b"") for number in (3, 5)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)])
    response = error_response(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, 9)
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    assert topic.name == "t"
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(3, 6), (5, 6)]


def test_fetch_error_is_set_at_the_top_and_for_each_partition() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=4)])])
    response = error_response(request, ErrorCode.OFFSET_OUT_OF_RANGE, 11)
    assert isinstance(response, FetchResponse)
    (topic,) = response.responses
    assert (response.error_code, topic.topic) == (1, "t")
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(4, 1)]


def test_errors_of_named_things_repeat_the_names() -> None:
    metadata = error_response(
        MetadataRequest(topics=[MetadataRequestTopic(name="a")]), ErrorCode.INVALID_TOPIC_EXCEPTION, 8
    )
    assert isinstance(metadata, MetadataResponse)
    assert [(topic.name, topic.error_code) for topic in metadata.topics] == [("a", 17)]
    groups = error_response(DeleteGroupsRequest(groups_names=["g", "h"]), ErrorCode.NON_EMPTY_GROUP, 2)
    assert isinstance(groups, DeleteGroupsResponse)
    assert [(each.group_id, each.error_code) for each in groups.results] == [("g", 68), ("h", 68)]


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_an_error_response_of_every_api_and_version_can_be_sent(api_key: int) -> None:
    request = request_class(api_key)
    for version in range(request.min_version, request.max_version + 1):
        response = error_response(request(), ErrorCode.REQUEST_TIMED_OUT, version)
        assert encode_parts(response, version)
