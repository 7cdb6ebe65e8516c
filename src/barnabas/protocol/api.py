"""Kafka's API keys, and the modules that declare their messages.

Message modules are imported on first use, so that a starting broker or `barnabas --help` does not load unused
APIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import NamedTuple

from barnabas.protocol.schema import UNBOUNDED, Message


class ApiKey(IntEnum):
    """All API keys under Kafka's names, and the Barnabas APIs."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    APPEND_MIRRORED = 10_000
    ALTER_MIRRORS = 10_001
    DESCRIBE_MIRRORS = 10_002
    SETTLE_MIRRORS = 10_003


OWN_API = 10_000
"""First key of the Barnabas APIs: Kafka counts from 0, and clients ignore unknown keys."""


class Api(NamedTuple):
    """Module of an API's messages, and its first flexible version without loading them."""

    name: str
    family: str
    first_flexible: int


# APIs whose messages are declared, without those that Kafka 4.0 removed (4 to 7) and those between KRaft
# controllers, which Barnabas does not have (52 to 54, 59, 62, 70, 82, 94).
APIS: dict[int, Api] = {
    0: Api("Produce", "produce", 9),
    1: Api("Fetch", "fetch", 12),
    2: Api("ListOffsets", "offsets", 6),
    3: Api("Metadata", "metadata", 9),
    8: Api("OffsetCommit", "offsets", 8),
    9: Api("OffsetFetch", "offsets", 6),
    10: Api("FindCoordinator", "metadata", 3),
    11: Api("JoinGroup", "groups", 6),
    12: Api("Heartbeat", "groups", 4),
    13: Api("LeaveGroup", "groups", 4),
    14: Api("SyncGroup", "groups", 4),
    15: Api("DescribeGroups", "groups", 5),
    16: Api("ListGroups", "groups", 3),
    17: Api("SaslHandshake", "sasl", UNBOUNDED),
    18: Api("ApiVersions", "metadata", 3),
    19: Api("CreateTopics", "topics", 5),
    20: Api("DeleteTopics", "topics", 4),
    21: Api("DeleteRecords", "topics", 2),
    22: Api("InitProducerId", "transactions", 2),
    23: Api("OffsetForLeaderEpoch", "offsets", 4),
    24: Api("AddPartitionsToTxn", "transactions", 3),
    25: Api("AddOffsetsToTxn", "transactions", 3),
    26: Api("EndTxn", "transactions", 3),
    27: Api("WriteTxnMarkers", "transactions", 1),
    28: Api("TxnOffsetCommit", "transactions", 3),
    29: Api("DescribeAcls", "acls", 2),
    30: Api("CreateAcls", "acls", 2),
    31: Api("DeleteAcls", "acls", 2),
    32: Api("DescribeConfigs", "configs", 4),
    33: Api("AlterConfigs", "configs", 2),
    34: Api("AlterReplicaLogDirs", "cluster", 2),
    35: Api("DescribeLogDirs", "cluster", 2),
    36: Api("SaslAuthenticate", "sasl", 2),
    37: Api("CreatePartitions", "topics", 2),
    38: Api("CreateDelegationToken", "tokens", 2),
    39: Api("RenewDelegationToken", "tokens", 2),
    40: Api("ExpireDelegationToken", "tokens", 2),
    41: Api("DescribeDelegationToken", "tokens", 2),
    42: Api("DeleteGroups", "groups", 2),
    43: Api("ElectLeaders", "cluster", 2),
    44: Api("IncrementalAlterConfigs", "configs", 1),
    45: Api("AlterPartitionReassignments", "cluster", 0),
    46: Api("ListPartitionReassignments", "cluster", 0),
    47: Api("OffsetDelete", "offsets", UNBOUNDED),
    48: Api("DescribeClientQuotas", "quotas", 1),
    49: Api("AlterClientQuotas", "quotas", 1),
    50: Api("DescribeUserScramCredentials", "sasl", 0),
    51: Api("AlterUserScramCredentials", "sasl", 0),
    55: Api("DescribeQuorum", "cluster", 0),
    56: Api("AlterPartition", "replication", 0),
    57: Api("UpdateFeatures", "cluster", 0),
    58: Api("Envelope", "replication", 0),
    60: Api("DescribeCluster", "cluster", 0),
    61: Api("DescribeProducers", "transactions", 0),
    63: Api("BrokerHeartbeat", "replication", 0),
    64: Api("UnregisterBroker", "cluster", 0),
    65: Api("DescribeTransactions", "transactions", 0),
    66: Api("ListTransactions", "transactions", 0),
    67: Api("AllocateProducerIds", "replication", 0),
    68: Api("ConsumerGroupHeartbeat", "consumer", 0),
    69: Api("ConsumerGroupDescribe", "consumer", 0),
    71: Api("GetTelemetrySubscriptions", "telemetry", 0),
    72: Api("PushTelemetry", "telemetry", 0),
    73: Api("AssignReplicasToDirs", "replication", 0),
    74: Api("ListConfigResources", "configs", 0),
    75: Api("DescribeTopicPartitions", "metadata", 0),
    76: Api("ShareGroupHeartbeat", "share", 0),
    77: Api("ShareGroupDescribe", "share", 0),
    78: Api("ShareFetch", "share", 0),
    79: Api("ShareAcknowledge", "share", 0),
    80: Api("AddRaftVoter", "cluster", 0),
    81: Api("RemoveRaftVoter", "cluster", 0),
    83: Api("InitializeShareGroupState", "share_state", 0),
    84: Api("ReadShareGroupState", "share_state", 0),
    85: Api("WriteShareGroupState", "share_state", 0),
    86: Api("DeleteShareGroupState", "share_state", 0),
    87: Api("ReadShareGroupStateSummary", "share_state", 0),
    88: Api("StreamsGroupHeartbeat", "streams", 0),
    89: Api("StreamsGroupDescribe", "streams", 0),
    90: Api("DescribeShareGroupOffsets", "share", 0),
    91: Api("AlterShareGroupOffsets", "share", 0),
    92: Api("DeleteShareGroupOffsets", "share", 0),
    93: Api("StreamsGroupTopologyDescriptionUpdate", "streams", 0),
    10_000: Api("AppendMirrored", "mirror", 0),
    10_001: Api("AlterMirrors", "mirror", 0),
    10_002: Api("DescribeMirrors", "mirror", 0),
    10_003: Api("SettleMirrors", "mirror", 0),
}


def request_class(api_key: int) -> type[Message]:
    """Return the class of an API's request; KeyError for an API that is not declared."""
    return REQUESTS[api_key]


def response_class(api_key: int) -> type[Message]:
    """Return the class of an API's response; KeyError for an API that is not declared."""
    return RESPONSES[api_key]


class _Messages(Mapping[int, type[Message]]):
    """Messages of one direction by API key, loaded on first use."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._loaded: dict[int, type[Message]] = {}

    def __getitem__(self, api_key: int) -> type[Message]:
        message = self._loaded.get(api_key)
        if message is None:
            message = self._loaded[api_key] = self._load(APIS[api_key])
        return message

    def __iter__(self) -> Iterator[int]:
        return iter(APIS)

    def __len__(self) -> int:
        return len(APIS)

    def _load(self, api: Api) -> type[Message]:
        module = import_module(f"barnabas.protocol.messages.{api.family}")
        message: type[Message] = getattr(module, api.name + self._suffix)
        return message


REQUESTS: Mapping[int, type[Message]] = _Messages("Request")
RESPONSES: Mapping[int, type[Message]] = _Messages("Response")
