"""The table of handlers. It *is* the ApiVersions answer and the table in COMPATIBILITY.md.

An API stands here when a real client's test of it passes, with the versions that are served.
"""

from __future__ import annotations

from barnabas.protocol.messages.cluster import DescribeLogDirsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.messages.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import DeleteRecordsRequest
from barnabas.protocol.messages.transactions import DescribeProducersRequest, InitProducerIdRequest
from barnabas.server.dispatch import Handler
from barnabas.server.handlers import fetch, log_dirs, offsets, produce, transactions, versions

HANDLERS: tuple[Handler, ...] = (
    # librdkafka's feature check wants to see Produce 0 (KAFKA-18659); 0 to 2 are refused, as by Kafka.
    Handler(ProduceRequest, 3, 13, produce.produce, advertised_min=0),
    Handler(FetchRequest, 4, 18, fetch.fetch),
    Handler(ListOffsetsRequest, 1, 11, offsets.list_offsets),
    Handler(ApiVersionsRequest, 0, 4, versions.api_versions),
    Handler(DeleteRecordsRequest, 0, 2, offsets.delete_records),
    Handler(InitProducerIdRequest, 0, 5, transactions.init_producer_id),
    Handler(OffsetForLeaderEpochRequest, 2, 4, offsets.offset_for_leader_epoch),
    Handler(DescribeLogDirsRequest, 1, 5, log_dirs.describe_log_dirs),
    Handler(DescribeProducersRequest, 0, 0, transactions.describe_producers),
)
