"""Actions that a page offers: only those the user may perform, none in a read-only console."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client import Client, ClientError, admin, find_tiered
from barnabas.common.errors import KafkaError
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError

# -- Tiered topics: requested for all topics together, and cached ---------------------------------------

KEPT_SECONDS = 60.0
"""Describing the configs of 9,000 topics takes a second."""


class TieredTopics:
    def __init__(self) -> None:
        self._asked_at = -KEPT_SECONDS
        self._known: dict[str, bool] = {}

    async def among(self, client: Client, names: Iterable[str]) -> list[str]:
        """Subset of the names whose topics are tiered. Topics missing in the cache are requested immediately."""
        if time.monotonic() - self._asked_at >= KEPT_SECONDS:
            self._asked_at, self._known = time.monotonic(), {}
        wanted = sorted(names)
        if new := [name for name in wanted if name not in self._known]:
            topics = await client.all_topics()
            there = {name: topics[name] for name in new if name in topics}
            tiered = set(await find_tiered(client, there))
            self._known |= {name: name in tiered for name in new}
        return [name for name in wanted if self._known[name]]


# -- Settings that lists show ---------------------------------------------------------------------------

FOREVER = -1.0
POLICY, RETENTION, TIERED = "cleanup.policy", "retention.ms", "remote.storage.enable"


class TopicKeeping(NamedTuple):
    seconds: float
    """Retention time; `FOREVER` if records are only compacted, or not deleted by time."""
    is_compacted: bool
    is_tiered: bool


class TopicKeepings:
    """Retention, compaction and tiering by topic, requested for a page of a list, and cached."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, TopicKeeping]] = {}

    async def among(self, client: Client, names: Iterable[str]) -> dict[str, TopicKeeping]:
        """The user must have DESCRIBE_CONFIGS on the topics. Empty if the cluster does not answer."""
        wanted, now = list(names), time.monotonic()
        self._known = {name: each for name, each in self._known.items() if each[0] > now}
        if new := [name for name in wanted if name not in self._known]:
            try:
                found = await admin.settings_of_topics(client, new, (POLICY, RETENTION, TIERED))
            except (KafkaError, ClientError, TimeoutError, OSError):
                return {}
            until = now + KEPT_SECONDS
            self._known |= {name: (until, _keeping(settings)) for name, settings in found.items()}
        return {name: self._known[name][1] for name in wanted if name in self._known}


def _keeping(settings: Mapping[str, str | None]) -> TopicKeeping:
    policy, retention = settings.get(POLICY) or "delete", float(settings.get(RETENTION) or -1)
    seconds = retention / 1000 if "delete" in policy and retention >= 0 else FOREVER
    return TopicKeeping(seconds, "compact" in policy, settings.get(TIERED) == "true")


# -- Confirmation of irreversible changes ---------------------------------------------------------------


def confirmed(typed: str, wanted: str) -> None:
    if typed.strip() != wanted:
        raise BadInputError(f"Nothing was done: type {wanted} to confirm it", "confirm")


async def may_change(
    context: RequestScope, operation: Operation, resource_type: ResourceType, name: str
) -> bool:
    return not context.settings.read_only and await context.may(operation, resource_type, name)


async def may_change_topic(context: RequestScope, operation: Operation, name: str) -> bool:
    return await may_change(context, operation, ResourceType.TOPIC, name)


async def may_change_cluster(context: RequestScope, operation: Operation) -> bool:
    return await may_change(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
