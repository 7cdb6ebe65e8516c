"""May the visitor change anything on a page? Then it shows forms."""

from __future__ import annotations

from barnabas.services.console.context import Context
from barnabas.services.console.needs import ADMINISTER
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType


async def may_administer(context: Context, operation: Operation) -> bool:
    return (
        not context.settings.read_only
        and await context.visitor.may(context.cluster.name, ADMINISTER)
        and await context.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    )
