"""Partition reassignments: plan, preview, start, progress, cancellation."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec

from barnabas.client import admin
from barnabas.client.placement import (
    ClusterLayout,
    NoPlanError,
    ReassignmentPlan,
    describe_layout,
    describe_moving,
    plan_drain,
    plan_move,
    plan_rebalance,
    reassignments,
    with_copies,
)
from barnabas.common.types import TopicPartition
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.moving import AT_ONCE, MoveProgress, digest, progress_of
from barnabas.services.console.administration.partitions import NOT_PREFERRED, flags_of
from barnabas.services.console.administration.rights import may_change_cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, StaleError
from barnabas.services.console.needs import cluster
from barnabas.services.console.pages.cluster.brokers import BrokerRow, BrokersQuery, show_brokers
from barnabas.services.console.pages.list_parts import Freshness, freshness
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

routes = Routes()

SHOWN = 200
"""Moves of a plan listed on a page; totals cover all of them."""

Kind = Literal["", "balance", "drain", "topic"]


class PlanQuery(msgspec.Struct):
    plan: Kind = ""
    """`balance` evens out the brokers, for example after one was added; `drain` empties `broker`; `topic` moves
    `topic`."""
    broker: int | None = None
    topic: str = ""
    partition: int | None = None
    to: str = ""
    """Broker ids, preferred leader first: 1,2,3."""


class StartForm(msgspec.Struct):
    plan: Kind
    broker: int | None = None
    topic: str = ""
    partition: int | None = None
    to: str = ""
    digest: str = ""
    """Digest of the previewed plan; a different plan is not executed."""
    at_once: Annotated[int, msgspec.Meta(ge=1, le=1000)] = AT_ONCE


class CancelForm(msgspec.Struct):
    topic: str = ""
    """Empty: all moves in progress."""
    partition: int | None = None


class ResumeForm(msgspec.Struct):
    pass


class ElectForm(msgspec.Struct):
    topic: str = ""
    """Empty: all topics."""


class PlannedMove(msgspec.Struct):
    topic: str
    partition: int
    before: list[int]
    after: list[int]
    copied_bytes: int


class PlanShown(msgspec.Struct):
    moves: list[PlannedMove]
    count: int
    """Number of moves, including those not in `moves`."""
    replicas: int
    """Replicas to copy."""
    elections: int
    copied_bytes: int
    remote_bytes: int
    """Bytes in the object store, which are not copied."""
    digest: str


class MovesPage(msgspec.Struct):
    figures: Freshness
    brokers: list[BrokerRow]
    under_way: list[MoveProgress]
    left_out: int
    """Partitions in progress of topics that the user may not describe."""
    copied: int
    total: int
    rate: float | None
    waiting: int
    """Moves of the plan that have not started."""
    interrupted: int
    """Moves of a plan that was interrupted by the end of a console."""
    error: str
    """Why the last plan failed; for users who may start one."""
    not_preferred: int
    """Partitions not led by their preferred replica."""
    plan: PlanShown | None
    problem: str
    """Reason that no plan could be made."""
    may_alter: bool


@routes.page(
    "/moves",
    needs=cluster(Operation.DESCRIBE),
    template="cluster/moves.html",
    entry=NavigationEntry("Moves", "m", 60, "moves", "Cluster"),
)
async def show_moves(context: RequestScope, query: PlanQuery) -> MovesPage:
    """Reassignments in progress, with bytes copied; with `plan`, a preview of its moves."""
    mover, snapshot = context.cluster.mover, context.cluster.sampler.snapshot
    layout = await (describe_layout(context.client) if query.plan else describe_moving(context.client))
    under_way = progress_of(layout, mover.meter, time.monotonic())
    seen = await _described(context, {each.topic for each in under_way})
    shown = [each for each in under_way if each.topic in seen]
    plan, problem = await _plan_and_problem(context, layout, query)
    stored, may_alter = mover.interrupted(), await may_change_cluster(context, Operation.ALTER)
    rates = [each.rate for each in under_way if each.rate is not None]
    return MovesPage(
        freshness(snapshot),
        (await show_brokers(context, BrokersQuery())).brokers,
        shown,
        len(under_way) - len(shown),
        sum(each.copied for each in under_way),
        sum(each.bytes for each in under_way),
        sum(rates) if rates else None,
        max(0, mover.total - mover.done - len(under_way)) if mover.running else 0,
        0 if stored is None else len(stored.moves),
        mover.error if may_alter else "",
        not_preferred(snapshot),
        plan,
        problem,
        may_alter,
    )


async def _described(context: RequestScope, topics: set[str]) -> set[str]:
    return await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)


@routes.action("/moves/start", needs=cluster(Operation.ALTER))
async def start_moves(context: RequestScope, form: StartForm) -> ActionResult:
    """Execute a plan, a few partitions at a time. Refused if the plan changed because the cluster did."""
    layout = await describe_layout(context.client)
    query = PlanQuery(form.plan, form.broker, form.topic, form.partition, form.to)
    try:
        plan = await _planned(context, layout, query)
    except NoPlanError as error:
        raise BadInputError(str(error), "plan") from None
    if form.digest and digest(plan) != form.digest:
        raise StaleError("The cluster has changed since this plan was made. Check the new plan and start it")
    if plan.is_empty:
        return ActionResult("The cluster is balanced; nothing was moved.", "/moves")
    by_console = context.user.client() is None
    context.cluster.mover.start(context.client, plan, form.at_once, by_console=by_console)
    return ActionResult(f"{len(plan.moves)} partitions and {len(plan.elections)} leaders change.", "/moves")


@routes.action("/moves/resume", needs=cluster(Operation.ALTER))
async def resume_moves(context: RequestScope, form: ResumeForm) -> ActionResult:
    """Continue the plan that was interrupted by the end of a console; without the partitions that changed since."""
    count = await context.cluster.mover.resume(context.client)
    return ActionResult(f"{count} partitions of the interrupted plan change.", "/moves")


@routes.action("/moves/cancel", needs=cluster(Operation.ALTER))
async def cancel_moves(context: RequestScope, form: CancelForm) -> ActionResult:
    """Cancel reassignments: all, or those of one topic or partition. Replicas added by them are removed."""
    if not form.topic:
        await context.cluster.mover.cancel()
    partitions = [
        tp
        for tp in await reassignments.in_progress(context.client)
        if form.topic in ("", tp.topic) and form.partition in (None, tp.partition)
    ]
    if partitions:
        await reassignments.alter(context.client, dict.fromkeys(partitions))
    return ActionResult(f"{len(partitions)} moves cancelled.", "/moves")


@routes.action("/moves/elect", needs=cluster(Operation.ALTER))
async def elect_leaders(context: RequestScope, form: ElectForm) -> ActionResult:
    """Elect the preferred replica as leader where it is in sync."""
    topics = await (context.client.topics([form.topic]) if form.topic else context.client.all_topics())
    wanted = [
        TopicPartition(name, index)
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
        if NOT_PREFERRED in flags_of(partition) and partition.replicas[0] in partition.isr
    ]
    failed = await reassignments.elect_preferred(context.client, wanted)
    text = f"{len(wanted) - len(failed)} partitions are now led by their preferred replica."
    seen = await _described(context, {tp.topic for tp in failed})
    for tp, reason in [each for each in failed.items() if each[0].topic in seen][:3]:
        text += f" {tp} is not: {reason}."
    return ActionResult(text, "/moves")


async def _plan_and_problem(
    context: RequestScope, layout: ClusterLayout, query: PlanQuery
) -> tuple[PlanShown | None, str]:
    if not query.plan:
        return None, ""
    try:
        plan = await _planned(context, layout, query)
        return _shown(plan, await _described(context, {move.partition.topic for move in plan.moves})), ""
    except NoPlanError as error:
        return None, str(error)


async def _planned(context: RequestScope, layout: ClusterLayout, query: PlanQuery) -> ReassignmentPlan:
    if query.plan == "drain":
        if query.broker is None:
            raise BadInputError("Choose the broker to drain", "broker")
        plan = plan_drain(layout, query.broker)
    elif query.plan == "topic":
        await context.demand(Operation.DESCRIBE, ResourceType.TOPIC, query.topic)
        brokers = parse_brokers(query.to, layout)
        plan = plan_move(layout, query.topic, query.partition, brokers, len(brokers))
    else:
        plan = plan_rebalance(layout)
    return await with_copies(context.client, layout, plan)


def parse_brokers(text: str, layout: ClusterLayout) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(map(admin.is_broker_id, parts)) or len(set(parts)) < len(parts):
        raise BadInputError(f"not a list of distinct broker ids: {text!r} (example: 1,2,3)", "to")
    found = [int(part) for part in parts]
    for broker in found:
        if broker not in layout.brokers:
            known = ", ".join(map(str, layout.brokers))
            raise BadInputError(f"Broker {broker} is not up; {known} are", "to")
    return found


def _shown(plan: ReassignmentPlan, seen: set[str]) -> PlanShown:
    """Moves of topics that the user may describe; totals cover all of them."""
    listed = [move for move in plan.moves if move.partition.topic in seen][:SHOWN]
    rows = [
        PlannedMove(
            *move.partition,
            list(move.before),
            list(move.after),
            plan.sizes.get(move.partition, 0) * len(move.added),
        )
        for move in listed
    ]
    copies = sum(len(move.added) for move in plan.moves)
    return PlanShown(
        rows,
        len(plan.moves),
        copies,
        len(plan.elections),
        plan.copied_bytes,
        plan.remote_bytes,
        digest(plan),
    )


def not_preferred(snapshot: ClusterSnapshot) -> int:
    """Number of partitions led by a replica other than the preferred one."""
    return sum(
        0 <= partition.leader != partition.replicas[0]
        for topic in snapshot.topics.values()
        for partition in topic.layout
        if partition.replicas
    )
