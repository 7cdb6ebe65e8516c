"""What a page may offer: nothing that the visitor may not do, and no change in a read-only console."""

from __future__ import annotations

import time
from collections.abc import Iterable
from barnabas.client.cluster import Client
from barnabas.client.tiers import find_tiered

from barnabas.services.console.errors import BadInputError

from barnabas.services.console.context import Context
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType


# -- Which topics are tiered: asked for all of them at once, and not at every look ---------------------

KEPT_SECONDS = 60.0
"""A cluster of 9,000 topics takes a second to ask for the settings of each."""


class TieredTopics:
    def __init__(self) -> None:
        self._asked_at = -KEPT_SECONDS
        self._known: dict[str, bool] = {}

    async def among(self, client: Client, names: Iterable[str]) -> list[str]:
        """Those of the names whose topics are tiered. Topics that were not seen before are asked for at once."""
        if time.monotonic() - self._asked_at >= KEPT_SECONDS:
            self._asked_at, self._known = time.monotonic(), {}
        wanted = sorted(names)
        if new := [name for name in wanted if name not in self._known]:
            topics = await client.all_topics()
            there = {name: topics[name] for name in new if name in topics}
            tiered = set(await find_tiered(client, there))
            self._known |= {name: name in tiered for name in new}
        return [name for name in wanted if self._known[name]]




# -- Changes that cannot be taken back are typed out first ---------------------------------------------

def confirmed(typed: str, wanted: str) -> None:
    if typed.strip() != wanted:
        raise BadInputError(f"Nothing was done: type {wanted} to confirm it", "confirm")




async def may_change(context: Context, operation: Operation, resource_type: ResourceType, name: str) -> bool:
    return not context.settings.read_only and await context.may(operation, resource_type, name)


async def may_change_topic(context: Context, operation: Operation, name: str) -> bool:
    return await may_change(context, operation, ResourceType.TOPIC, name)


async def may_change_cluster(context: Context, operation: Operation) -> bool:
    return await may_change(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
