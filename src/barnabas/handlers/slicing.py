"""Chunking of requests with many elements, so that the loop serves others in between.

For each API: the elements of a part, then the arrays of the request, those of the response, and the fields
that identify an element. `always` removes duplicates even from a small request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.handlers.topics import CREATED_AT_ONCE, within_bound
from barnabas.network.requests import ELEMENTS_AT_ONCE, HandlerFunction
from barnabas.network.requests.request_parts import ALL, TWICE, ArrayPath, cut_at
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeRequest,
)
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
)
from barnabas.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
)
from barnabas.protocol.messages.mirror import (
    AppendMirroredRequest,
    DescribeMirrorsRequest,
    SettleMirrorsRequest,
)
from barnabas.protocol.messages.offsets import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.replication import (
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
)
from barnabas.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from barnabas.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from barnabas.protocol.messages.streams import StreamsGroupDescribeRequest
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.schema import Message

_OF_TOPICS = ("topics", "topics", ("name",))
_OF_TOPICS_OR_IDS = ("topics", "topics", ("name", "topic_id"))
_OF_TOPIC_IDS = ("topics", "results", ("topic_id",))
_OF_PARTITIONS = ("partitions", "partitions", ("partition_index",))
_OF_STATES = cut_at(_OF_TOPIC_IDS, ("partitions", "partitions", ("partition",)), repeats=ALL)
_OF_RESOURCES = cut_at(("resources", "responses", ("resource_type", "resource_name")), repeats=TWICE)


class Chunking(NamedTuple):
    of: int
    cuts: tuple[ArrayPath, ...]
    always: bool = False
    only_heavy: bool = False
    """Small requests go to the handler directly: there are many of them."""
    check: Callable[[HandlerFunction], HandlerFunction] | None = None
    """Checks the whole request before it is split."""


CHUNKING: dict[type[Message], Chunking] = {
    ProduceRequest: Chunking(
        100,
        (
            cut_at(
                ("topic_data", "responses", ("name", "topic_id")),
                ("partition_data", "partition_responses", ("index",)),
                repeats=ALL,
            ),
        ),
        only_heavy=True,
    ),
    ListOffsetsRequest: Chunking(200, (cut_at(_OF_TOPICS, _OF_PARTITIONS, repeats=TWICE),)),
    MetadataRequest: Chunking(200, (cut_at(("topics", "topics", ("topic_id", "name"))),)),
    OffsetCommitRequest: Chunking(500, (cut_at(_OF_TOPICS_OR_IDS, _OF_PARTITIONS, repeats=ALL),)),
    OffsetFetchRequest: Chunking(
        500,
        (
            cut_at(
                ("groups", "groups", ("group_id",)), _OF_TOPICS_OR_IDS, ("partition_indexes", "partitions")
            ),
            cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),
        ),
        always=True,
    ),
    FindCoordinatorRequest: Chunking(200, (cut_at(("coordinator_keys", "coordinators")),), always=True),
    DescribeGroupsRequest: Chunking(10, (cut_at(("groups", "groups")),), always=True),
    CreateTopicsRequest: Chunking(
        CREATED_AT_ONCE, (cut_at(("topics", "topics", ("name",)), repeats=TWICE),), check=within_bound
    ),
    DeleteTopicsRequest: Chunking(
        100,
        (
            cut_at(("topics", "responses", ("name", "topic_id")), repeats=TWICE),
            cut_at(("topic_names", "responses"), repeats=TWICE),
        ),
    ),
    DeleteRecordsRequest: Chunking(100, (cut_at(_OF_TOPICS, _OF_PARTITIONS),)),
    OffsetForLeaderEpochRequest: Chunking(
        500, (cut_at(("topics", "topics", ("topic",)), ("partitions", "partitions", ("partition",))),)
    ),
    # Partitions are added all or none. Of a request with more than a thousand, some parts may be added and others not.
    # That is harmless: a producer sends the whole request again after a retriable error, which adds nothing twice, and
    # aborts after any other, which ends the transaction in the partitions that were added.
    AddPartitionsToTxnRequest: Chunking(
        ELEMENTS_AT_ONCE,
        (
            cut_at(
                ("transactions", "results_by_transaction", ("transactional_id",)),
                ("topics", "topic_results", ("name",)),
                ("partitions", "results_by_partition"),
                repeats=ALL,
            ),
            cut_at(
                ("v3_and_below_topics", "results_by_topic_v3_and_below", ("name",)),
                ("partitions", "results_by_partition"),
                repeats=ALL,
            ),
        ),
    ),
    WriteTxnMarkersRequest: Chunking(
        100,
        (
            cut_at(
                ("markers", "markers", ("producer_id",)),
                ("topics", "topics", ("name",)),
                ("partition_indexes", "partitions"),
                repeats=ALL,
            ),
        ),
    ),
    TxnOffsetCommitRequest: Chunking(500, (cut_at(_OF_TOPICS, _OF_PARTITIONS, repeats=ALL),)),
    # Up to this many change in one entry of the metadata log: all or none.
    AlterClientQuotasRequest: Chunking(1000, (cut_at(("entries", "entries"), repeats=ALL),)),
    AlterConfigsRequest: Chunking(50, (_OF_RESOURCES,)),
    AlterReplicaLogDirsRequest: Chunking(
        100,
        (cut_at(("dirs", "results", ("path",)), ("topics", "partitions", ("name",)), ("partitions", "")),),
    ),
    DeleteGroupsRequest: Chunking(50, (cut_at(("groups_names", "results")),)),
    ElectLeadersRequest: Chunking(
        200,
        (
            cut_at(
                ("topic_partitions", "replica_election_results", ("topic",)),
                ("partitions", "partition_result"),
            ),
        ),
    ),
    IncrementalAlterConfigsRequest: Chunking(50, (_OF_RESOURCES,)),
    AlterPartitionReassignmentsRequest: Chunking(
        200, (cut_at(("topics", "responses", ("name",)), _OF_PARTITIONS, repeats=ALL),)
    ),
    # Kafka's tool names every partition when it describes topics.
    ListPartitionReassignmentsRequest: Chunking(
        ELEMENTS_AT_ONCE, (cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),)
    ),
    AlterPartitionRequest: Chunking(
        200, (cut_at(("topics", "topics", ("topic_id",)), _OF_PARTITIONS, repeats=ALL),)
    ),
    OffsetDeleteRequest: Chunking(500, (cut_at(_OF_TOPICS, _OF_PARTITIONS),)),
    DescribeProducersRequest: Chunking(
        20, (cut_at(_OF_TOPICS, ("partition_indexes", "partitions")),), always=True
    ),
    DescribeTransactionsRequest: Chunking(
        20, (cut_at(("transactional_ids", "transaction_states")),), always=True
    ),
    AssignReplicasToDirsRequest: Chunking(
        200,
        (
            cut_at(
                ("directories", "directories", ("id",)),
                ("topics", "topics", ("topic_id",)),
                _OF_PARTITIONS,
                repeats=ALL,
            ),
        ),
    ),
    ConsumerGroupDescribeRequest: Chunking(10, (cut_at(("group_ids", "groups")),), always=True),
    ShareGroupDescribeRequest: Chunking(10, (cut_at(("group_ids", "groups")),), always=True),
    InitializeShareGroupStateRequest: Chunking(100, (_OF_STATES,)),
    ReadShareGroupStateRequest: Chunking(100, (_OF_STATES,)),
    WriteShareGroupStateRequest: Chunking(100, (_OF_STATES,)),
    DeleteShareGroupStateRequest: Chunking(100, (_OF_STATES,)),
    ReadShareGroupStateSummaryRequest: Chunking(100, (_OF_STATES,)),
    DescribeShareGroupOffsetsRequest: Chunking(
        100,
        (
            cut_at(
                ("groups", "groups", ("group_id",)),
                ("topics", "topics", ("topic_name",)),
                ("partitions", "partitions"),
            ),
        ),
        always=True,
    ),
    AlterShareGroupOffsetsRequest: Chunking(
        100, (cut_at(("topics", "responses", ("topic_name",)), _OF_PARTITIONS),)
    ),
    DeleteShareGroupOffsetsRequest: Chunking(100, (cut_at(("topics", "responses", ("topic_name",))),)),
    AppendMirroredRequest: Chunking(
        100,
        (cut_at(("topics", "topics", ("topic_id",)), ("partitions", "partitions", ("index",)), repeats=ALL),),
        only_heavy=True,
    ),
    DescribeMirrorsRequest: Chunking(20, (cut_at(("topics", "topics")),)),
    SettleMirrorsRequest: Chunking(200, (cut_at(("topics", "topics", ("topic_id",)), repeats=ALL),)),
    StreamsGroupDescribeRequest: Chunking(5, (cut_at(("group_ids", "groups")),), always=True),
}
