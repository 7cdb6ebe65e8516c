"""Client quotas (KIP-546).

- DescribeClientQuotas, versions 0 and 1: the entities that match a filter, with their quotas.
- AlterClientQuotas, versions 0 and 1: each entity succeeds or fails independently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.common.cooperative import Steps, pieces
from barnabas.common.errors import KafkaError
from barnabas.controller import client_quotas as decide
from barnabas.handlers.needs import HasConfig, HasController, HasImage
from barnabas.network.requests import Result, run_or_continue_in_slices
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    ValueData,
)
from barnabas.security.quotas.filters import CLIENT_ID, IP, USER, Matching, QuotaEntity, matching

if TYPE_CHECKING:
    from barnabas.network.requests import Request

TOO_MANY = decide.MAX_CHANGES + 1

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class ClientQuotasNeeds(HasConfig, HasController, HasImage, Protocol):
    """Broker attributes used by the client quota handlers."""


def describe_client_quotas(
    broker: ClientQuotasNeeds, request: Request, message: DescribeClientQuotasRequest
) -> Result[DescribeClientQuotasResponse]:
    components = [(each.entity_type, each.match_type, each.match) for each in message.components]
    try:
        matches = matching(components, strict=message.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return run_or_continue_in_slices(request, _describing(broker.image.client_quotas, matches))


def _describing(quotas: Quotas, matches: Matching) -> Steps[DescribeClientQuotasResponse]:
    response = DescribeClientQuotasResponse()
    entries = response.entries = []
    for number, piece in enumerate(pieces(quotas.items())):
        if number:
            yield
        entries += [_entry(entity, values) for entity, values in piece if matches(entity)]
    return response


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> DescribeClientQuotasEntryData:
    kinds = zip((USER, CLIENT_ID, IP), entity, strict=True)
    return DescribeClientQuotasEntryData(
        [EntityData(kind, name or None) for kind, name in kinds if name is not None],
        [ValueData(key, value) for key, value in values.items()],
    )


async def alter_client_quotas(
    broker: ClientQuotasNeeds, request: Request, message: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    wanted = [_alteration(entry) for entry in message.entries]
    limit = broker.config["barnabas.quotas.max.entities"]
    results: list[KafkaError | None]
    try:
        results = await broker.controller.submit(
            lambda image: decide.alter_client_quotas(
                image, wanted, validate_only=message.validate_only, limit=limit
            )
        )
    except KafkaError as error:
        results = [error] * len(wanted)
    rows = zip(message.entries, results, strict=True)
    return AlterClientQuotasResponse(entries=[_result(entry, error) for entry, error in rows])


def _alteration(entry: AlterClientQuotasRequestEntryData) -> decide.Alteration:
    return decide.Alteration(
        [(each.entity_type, each.entity_name) for each in entry.entity[:TOO_MANY]],
        [(op.key, None if op.remove else op.value) for op in entry.ops[:TOO_MANY]],
    )


def _result(
    entry: AlterClientQuotasRequestEntryData, error: KafkaError | None
) -> AlterClientQuotasResponseEntryData:
    if error is None:
        return AlterClientQuotasResponseEntryData(error_message=None, entity=entry.entity)
    return AlterClientQuotasResponseEntryData(error.code, error.message, entry.entity)
