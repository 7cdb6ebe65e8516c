"""Mirrored topics: lag behind their source, and actions on them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from barnabas.client.mirrors import MirrorInfo, control
from barnabas.client.mirrors.store import MIRROR_TOPIC, LinkStatus
from barnabas.client.status import STATUS_TOPIC, ProcessStatus, read_statuses
from barnabas.common.errors import KafkaError
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import confirmed, may_change_cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ResourceNotFoundError, StaleError
from barnabas.services.console.needs import SHOWN, cluster, topic
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes

routes = Routes()

ALTERED = cluster(Operation.ALTER) & topic(Operation.WRITE)
PROMOTE_SECONDS = 30.0
PAUSE_SECONDS = 10.0
"""Time for a mirror to pause in a restart; one that does not run is resumed with its next start."""
PAUSE_POLLS = 50


class MirrorsQuery(msgspec.Struct):
    pass


class MirrorForm(msgspec.Struct):
    topic: str


class PromoteForm(msgspec.Struct):
    topic: str
    confirm: str
    """Topic name, typed to confirm."""
    within: Annotated[float, msgspec.Meta(ge=0, le=PROMOTE_SECONDS)] = 10.0
    """Seconds to wait for the mirror to catch up."""


class MirrorRow(msgspec.Struct):
    topic: str
    link: str
    source_topic: str
    source_cluster: str
    state: str
    identical: bool
    partitions: int
    lag: int | None
    lag_seconds: float | None
    reason: str


class MirrorLinkRow(msgspec.Struct):
    name: str
    state: str
    error: str
    alarms: list[str]
    host: str
    updated: int


class MirrorsPage(msgspec.Struct):
    links: list[MirrorLinkRow]
    topics: list[MirrorRow]
    may_alter: bool
    note: str


@routes.page(
    "/mirrors",
    needs=SHOWN,
    template="cluster/mirrors.html",
    entry=NavigationEntry("Mirrors", "r", 85, "mirrors", "Cluster"),
)
async def show_mirrors(context: RequestScope, query: MirrorsQuery) -> MirrorsPage:
    """Topics mirrored to this cluster, and the mirroring processes. Topics that the user may not describe are left out;
    processes are shown to users with READ on their reports in `__barnabas_status`."""
    mirrors, note = await _mirrors(context)
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, [each.name for each in mirrors])
    statuses = {found.name: found for found in await read_statuses(context.cluster.client, "mirror")}
    rows = [row_of(each, statuses.get(each.link)) for each in mirrors if each.name in allowed]
    may_alter = await may_change_cluster(context, Operation.ALTER)
    reads = await context.may(Operation.READ, ResourceType.TOPIC, STATUS_TOPIC)
    links = [link_of(each) for each in statuses.values()] if reads else []
    return MirrorsPage(links, rows, may_alter, note)


@routes.action("/mirrors/{topic}/pause", needs=ALTERED)
async def pause_mirror(context: RequestScope, form: MirrorForm) -> ActionResult:
    """Pause mirroring of a topic; the topic stays read-only."""
    await control.pause(context.client, [await _find(context, form.topic)])
    return ActionResult(f"{form.topic} is paused.", "/mirrors")


@routes.action("/mirrors/{topic}/resume", needs=ALTERED)
async def resume_mirror(context: RequestScope, form: MirrorForm) -> ActionResult:
    """Resume mirroring of a topic that is paused, or that failed and was repaired."""
    await control.resume(context.client, [await _find(context, form.topic)])
    return ActionResult(f"{form.topic} is mirrored again.", "/mirrors")


@routes.action("/mirrors/{topic}/restart", needs=ALTERED)
async def restart_mirror(context: RequestScope, form: MirrorForm) -> ActionResult:
    """Pause mirroring of a topic and resume it: the link connects to the leaders of the source again, at the same
    offsets."""
    mirror = await _find(context, form.topic)
    if mirror.state in (LinkStatus.PAUSED, LinkStatus.PROMOTING, LinkStatus.STOPPED):
        raise StaleError(f"{form.topic} is {mirror.state.lower()}: there is nothing to restart")
    await control.pause(context.client, [mirror])
    for _ in range(PAUSE_POLLS):
        if (mirror := await _find(context, form.topic)).state == LinkStatus.PAUSED:
            break
        await asyncio.sleep(PAUSE_SECONDS / PAUSE_POLLS)
    await control.resume(context.client, [mirror])
    return ActionResult(f"Mirroring of {form.topic} is restarted.", "/mirrors")


@routes.action("/mirrors/{topic}/promote", needs=ALTERED)
async def promote_mirror(context: RequestScope, form: PromoteForm) -> ActionResult:
    """Stop mirroring a topic and make it writable once it has caught up with its source. Stop writes to the source
    first. A topic that is still behind after `within` seconds is not promoted."""
    confirmed(form.confirm, form.topic)
    await control.promote(context.client, [await _find(context, form.topic)], None, form.within)
    return ActionResult(f"{form.topic} is promoted: it can be written to.", "/mirrors")


@routes.action("/mirrors/{topic}/failover", needs=ALTERED)
async def fail_over_mirror(context: RequestScope, form: PromoteForm) -> ActionResult:
    """Promote a topic without contacting its source; records that were not mirrored yet are lost."""
    confirmed(form.confirm, form.topic)
    await control.failover(context.client, [await _find(context, form.topic)])
    return ActionResult(f"{form.topic} is promoted with what it had.", "/mirrors")


async def _mirrors(context: RequestScope) -> tuple[list[MirrorInfo], str]:
    try:
        return await control.mirrors_of(context.client), ""
    except KafkaError as error:
        if not error.code.name.endswith("AUTHORIZATION_FAILED"):
            raise
        return [], f"It needs READ on {MIRROR_TOPIC} to see what is mirrored: {error}"


async def _find(context: RequestScope, name: str) -> MirrorInfo:
    found = next((each for each in await control.mirrors_of(context.client) if each.name == name), None)
    if found is None:
        raise ResourceNotFoundError(f"{name} is not mirrored")
    return found


def row_of(mirror: MirrorInfo, status: ProcessStatus | None) -> MirrorRow:
    part = next((part for part in status.parts if part.name == mirror.name), None) if status else None
    is_gone = status is None or status.state in ("lost", "stopped")
    lag_ms = part.counts.get("lag_ms") if part is not None and not is_gone else None
    return MirrorRow(
        mirror.name,
        mirror.link,
        mirror.source_name,
        mirror.source_cluster,
        mirror.state,
        mirror.identical,
        mirror.partitions,
        part.lag if part is not None and mirror.lag is None else mirror.lag,
        None if lag_ms is None else lag_ms / 1000,
        mirror.reason or (part.reason if part else ""),
    )


def link_of(status: ProcessStatus) -> MirrorLinkRow:
    return MirrorLinkRow(status.name, status.state, status.error, status.alarms, status.host, status.updated)
