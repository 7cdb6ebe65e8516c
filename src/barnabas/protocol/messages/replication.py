"""Requests between brokers and to the controller."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    byte_string,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Struct):
    topic_id: bytes = uuid(ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


class AlterPartitionRequest(Message, api_key=56, versions="2-3", flexible="2+"):
    """Asks the controller to change partitions' ISR."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(ignorable=True)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Struct):
    topic_id: bytes = uuid(ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(AlterPartitionResponsePartitionData)


class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """Forwards a client's request to the controller, with its principal."""

    request_data: bytes = byte_string(is_secret=True)
    request_principal: bytes | None = byte_string(nullable="0+")
    client_host_address: bytes = byte_string()


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """Principal in an Envelope, preceded by its version; not a request."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = byte_string(nullable="0+", default=None, is_secret=True)
    error_code: int = int16()


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """Asks the controller for a block of producer ids."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: int = int32()


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsRequestPartitionData] = array(
        AssignReplicasToDirsRequestPartitionData
    )


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: bytes = uuid()
    topics: list[AssignReplicasToDirsRequestTopicData] = array(AssignReplicasToDirsRequestTopicData)


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    """Reports the log dirs of replicas to the controller."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = array(
        AssignReplicasToDirsRequestDirectoryData
    )


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(
        AssignReplicasToDirsResponsePartitionData
    )


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: bytes = uuid()
    topics: list[AssignReplicasToDirsResponseTopicData] = array(AssignReplicasToDirsResponseTopicData)


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(
        AssignReplicasToDirsResponseDirectoryData
    )


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    """Heartbeat of a broker to the controller, with requests such as controlled shutdown."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", tag=1, nullable="2+", default=None)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
