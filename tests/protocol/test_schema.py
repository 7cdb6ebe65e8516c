"""Declared classes: constructors, equality, shared defaults, version ranges."""

import subprocess
import sys

import pytest

from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeTopicPartitions,
    Member,
)
from barnabas.protocol.messages.fetch import FetchRequest, LeaderIdAndEpoch, PartitionData, ReplicaState
from barnabas.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import UNBOUNDED, Versions


def test_a_constructor_takes_values_by_position_or_name_and_defaults_the_rest() -> None:
    request = ProduceRequest("id", 1, timeout_ms=30)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("id", 1, 30)
    assert request.topic_data == []
    assert ProduceRequest().transactional_id is None


def test_lists_are_not_shared_between_messages() -> None:
    first, second = ProduceRequest(), ProduceRequest()
    first.topic_data.append(None)  # type: ignore[arg-type]
    assert second.topic_data == []


def test_unknown_arguments_and_attributes_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        ProduceRequest(colour="red")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        ProduceRequest().colour = "red"  # type: ignore[attr-defined]


def test_messages_are_equal_when_their_fields_are() -> None:
    assert ApiVersion(1, 2, 3) == ApiVersion(1, 2, 3)
    assert ApiVersion(1, 2, 3) != ApiVersion(1, 2, 4)
    assert ApiVersion(1, 2, 3) != (1, 2, 3)
    assert ProduceRequest() != ProduceResponse()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ApiVersion(1, 2, 3))


def test_a_message_shows_its_fields() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)])
    assert "api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]" in repr(response)


def test_unset_struct_is_a_read_only_default() -> None:
    partition = PartitionData()
    assert partition.current_leader == LeaderIdAndEpoch(-1, -1)
    with pytest.raises(AttributeError, match="assign a new struct"):
        partition.current_leader.leader_id = 5
    partition.current_leader = LeaderIdAndEpoch(5, 1)
    partition.current_leader.leader_id = 6
    assert PartitionData().current_leader.leader_id == -1
    assert FetchRequest().replica_state == ReplicaState()


def test_a_list_in_such_a_default_is_read_only_too() -> None:
    member = Member()
    with pytest.raises(AttributeError, match="assign a new struct"):
        member.assignment.topic_partitions.append(ConsumerGroupDescribeTopicPartitions())
    assert Member().assignment == ConsumerGroupDescribeAssignment()


@pytest.mark.parametrize(
    ("text", "range_"),
    [("3-13", (3, 13)), ("9+", (9, UNBOUNDED)), ("0", (0, 0)), ("none", (0, -1))],
)
def test_version_ranges_are_written_as_kafka_writes_them(text: str, range_: tuple[int, int]) -> None:
    assert Versions.parse(text) == range_


def test_class_attributes_describe_the_message() -> None:
    assert (ProduceRequest.NAME, ProduceRequest.api_key) == ("ProduceRequest", 0)
    assert (ProduceRequest.min_version, ProduceRequest.max_version) == (3, 13)
    assert not ProduceRequest.is_flexible(8)
    assert ProduceRequest.is_flexible(9)


def test_importing_the_protocol_loads_no_messages() -> None:
    code = (
        "import sys, barnabas.protocol; print([name for name in sys.modules if 'protocol.messages' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
