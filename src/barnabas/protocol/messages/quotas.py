"""Client quotas."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, boolean, float64, int8, int16, int32, string


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """Asks for the quotas of matching users, clients and addresses."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ValueData(Struct):
    key: str = string()
    value: float = float64()


class DescribeClientQuotasEntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasEntryData] | None = array(DescribeClientQuotasEntryData, nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """Sets and removes quotas."""

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
