"""Prometheus endpoint in kafka_exporter's format: `/c/{cluster}/metrics`, and `/metrics` for a single cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from barnabas.metrics import CONTENT_TYPE
from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.services.console.clusters import Cluster
from barnabas.services.console.context import RequestScope, refusal
from barnabas.services.console.errors import ResourceNotFoundError
from barnabas.services.console.exporter.lines import written
from barnabas.services.console.exporter.watch import narrowed
from barnabas.services.console.needs import CHECKED, cluster
from barnabas.services.console.routes import DownloadResponse, Routes

routes = Routes()

PIECE = 64 * 1024


class MetricsQuery(msgspec.Struct):
    pass


@routes.download("/metrics", needs=cluster(Operation.DESCRIBE))
async def cluster_metrics(context: RequestScope, query: MetricsQuery) -> DownloadResponse:
    """Metrics of the cluster for Prometheus, without topics and groups that the user may not describe."""
    return await _metrics(context, context.cluster)


@routes.download("/metrics", needs=CHECKED, outside=True)
async def only_metrics(context: RequestScope, query: MetricsQuery) -> DownloadResponse:
    """Metrics of a console with a single cluster; needs DESCRIBE on the cluster."""
    if len(context.clusters) != 1:
        names = ", ".join(context.clusters)
        raise ResourceNotFoundError(
            f"There are several clusters; ask /c/NAME/metrics of one of these: {names}"
        )
    (shown,) = context.clusters.values()
    action = Action(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    if not await context.user.on(shown.name).allows(action):
        raise refusal(context.user, action)
    return await _metrics(context, shown)


async def _metrics(context: RequestScope, shown: Cluster) -> DownloadResponse:
    known = shown.watch.known
    user, topics, groups = (
        context.user.on(shown.name),
        known.snapshot.topics.keys(),
        known.snapshot.groups.keys(),
    )
    seen = await user.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    read = await user.allowed(Operation.DESCRIBE, ResourceType.GROUP, groups)
    if seen >= topics and read >= groups:
        page = await shown.exporter.page()
    else:
        page = await written(narrowed(known, seen, read))
    return DownloadResponse("metrics.txt", CONTENT_TYPE, _pieces(page))


async def _pieces(page: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(page), PIECE):
        yield page[start : start + PIECE]
