"""Client quotas (KIP-546), by the requests of Kafka's Admin. A refusal is a KafkaError with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.cluster import Client, raise_for
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from barnabas.security.quotas.entities import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity

KINDS = (USER, CLIENT_ID, IP)


async def describe_quotas(client: Client) -> dict[QuotaEntity, dict[str, float]]:
    """Everybody's."""
    response: DescribeClientQuotasResponse = await client.send_to_any(DescribeClientQuotasRequest())
    raise_for(response.error_code, response.error_message or "")
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values}
        for entry in response.entries or ()
    }


async def alter_quotas(client: Client, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity; None takes one away."""
    named = [
        EntityData(kind, None if name == DEFAULT else name)
        for kind, name in zip(KINDS, entity, strict=True)
        if name is not None
    ]
    ops = [OpData(key, value or 0.0, value is None) for key, value in changes.items()]
    request = AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(named, ops)])
    response: AlterClientQuotasResponse = await client.send_to_controller(request)
    for entry in response.entries:
        raise_for(entry.error_code, entry.error_message or "")


def _entity(parts: list[EntityData]) -> QuotaEntity:
    named = {part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in parts}
    return QuotaEntity(*(named.get(kind) for kind in KINDS))
