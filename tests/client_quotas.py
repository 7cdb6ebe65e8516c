"""Client quotas of a broker in this process, set as AlterClientQuotas would set them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from barnabas.broker.broker import Broker
from barnabas.cluster.deltas import ClientQuotasChanged
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.testing import EmbeddedBroker


def set_quotas(broker: EmbeddedBroker, entity: QuotaEntity, **values: float | None) -> None:
    """None removes a quota. Returns when the broker uses them."""
    running = broker.broker
    asyncio.run_coroutine_threadsafe(changed(running, entity, values), running.timers).result(60)


async def changed(broker: Broker, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    await broker.controller.submit(lambda image: ([ClientQuotasChanged(entity, dict(values))], None))


@contextmanager
def quotas(broker: EmbeddedBroker, entity: QuotaEntity, **values: float) -> Iterator[None]:
    set_quotas(broker, entity, **values)
    try:
        yield
    finally:
        set_quotas(broker, entity, **dict.fromkeys(values))
