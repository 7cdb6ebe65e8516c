"""Persistence of share partition state by the share coordinator, for group coordinators and leaders."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class InitializeShareGroupStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStatePartitionData] = array(InitializeShareGroupStatePartitionData)


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """Creates the stored state of share partitions."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class InitializeShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStatePartitionResult] = array(
        InitializeShareGroupStatePartitionResult
    )


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = array(InitializeStateResult)


class ReadShareGroupStatePartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStatePartitionData] = array(ReadShareGroupStatePartitionData)


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """Reads the stored state of share partitions."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ReadShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStatePartitionResult] = array(ReadShareGroupStatePartitionResult)


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult] = array(ReadStateResult)


class WriteShareGroupStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStatePartitionData] = array(WriteShareGroupStatePartitionData)


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """Changes the stored state of share partitions."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class WriteShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class WriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStatePartitionResult] = array(WriteShareGroupStatePartitionResult)


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult] = array(WriteStateResult)


class DeleteShareGroupStatePartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStatePartitionData] = array(DeleteShareGroupStatePartitionData)


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """Deletes the stored state of share partitions."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class DeleteShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStatePartitionResult] = array(DeleteShareGroupStatePartitionResult)


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = array(DeleteStateResult)


class ReadShareGroupStateSummaryPartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryPartitionData] = array(ReadShareGroupStateSummaryPartitionData)


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """Reads only the start offsets of share partitions."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class ReadShareGroupStateSummaryPartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryPartitionResult] = array(
        ReadShareGroupStateSummaryPartitionResult
    )


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
