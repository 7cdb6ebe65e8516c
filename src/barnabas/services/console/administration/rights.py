"""What a page may offer: nothing that the visitor may not do, and no change in a read-only console."""

from __future__ import annotations

from barnabas.services.console.context import Context
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType


async def may_change(context: Context, operation: Operation, resource_type: ResourceType, name: str) -> bool:
    return not context.settings.read_only and await context.may(operation, resource_type, name)


async def may_change_topic(context: Context, operation: Operation, name: str) -> bool:
    return await may_change(context, operation, ResourceType.TOPIC, name)


async def may_change_cluster(context: Context, operation: Operation) -> bool:
    return await may_change(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
