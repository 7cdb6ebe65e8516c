"""`barnabas cluster move|drain|unregister|rebalance`: partitions change brokers. Plans wait for a --yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    complete_topic,
    confirm,
    with_client,
)
from barnabas.cli.output import count, say, show_done, show_json, size

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.placement import ClusterLayout, ReassignmentPlan

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Carry the plan out; without this it is only shown.")]
AtOnce = Annotated[
    int, typer.Option("--at-once", min=1, metavar="N", help="How many partitions move at the same time.")
]
BrokerIds = Annotated[
    str | None,
    typer.Option("--to", metavar="ID,ID,...", help="The brokers; the first is the preferred leader."),
]
DEFAULT_AT_ONCE = 50  # enough to keep disks busy, few enough to call off


def move(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic to move.", autocompletion=complete_topic)
    ],
    to: BrokerIds = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition [all].")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", "-r", min=1, help="So many for each partition [as many as brokers named]."
        ),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call off the moves under way instead.")] = False,
    yes: Yes = False,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move a topic, or one partition of it, to the brokers you name. More brokers than before make more replicas.

    The partitions of a topic take turns in where their replicas begin, so that the brokers lead alike.

    Examples:

      barnabas cluster move orders --to 1,2,3 --yes

      barnabas cluster move orders --partition 4 --to 3,1 --yes

      barnabas cluster move orders --cancel
    """
    if cancel == (to is not None):
        raise typer.BadParameter("give either --to with brokers, or --cancel")
    if to is None:
        _cancel(bootstrap, output, topic, partition)
        return
    brokers = _parse_ids(to)
    if replicas is not None and replicas > len(brokers):
        raise typer.BadParameter(f"{replicas} replicas need as many brokers; --to names {len(brokers)}")

    def planned(layout: ClusterLayout) -> ReassignmentPlan:
        from barnabas.client.placement import plan_move

        return plan_move(layout, topic, partition, brokers, replicas or len(brokers))

    _plan(bootstrap, output, planned, yes, at_once)


def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of the broker to empty.")],
    yes: Yes = False,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Empty a broker before it is removed: each of its replicas goes to a broker that holds few.

    Replicas of a partition stay on different hosts and in different racks as far as the other brokers allow it.
    Hosts are those that brokers advertise.
    Stopped in the middle, it can be run again. Topics that are created meanwhile may come to the broker: run it again.

    Examples:

      barnabas cluster drain 3

      barnabas cluster drain 3 --yes
    """

    def planned(layout: ClusterLayout) -> ReassignmentPlan:
        from barnabas.client.placement import plan_drain

        return plan_drain(layout, broker)

    if _plan(bootstrap, output, planned, yes, at_once):
        _say_whether_empty(bootstrap, broker)


def unregister(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of a broker that is stopped.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Forget a broker that will not come back: the last step after `drain` and stopping it.

    One that still has replicas takes the last copy of what only it had with it.

    Example:

      barnabas cluster unregister 3
    """

    async def work(client: Client) -> None:
        from barnabas.client import admin

        await admin.unregister_broker(client, broker)

    confirm(f"Forget broker {broker} and the replicas that it may still have?", yes)
    with_client(bootstrap, work)
    show_done(output, f"Broker {broker} is no longer part of the cluster.", {"id": broker})


def rebalance(
    yes: Yes = False,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Even out what brokers hold and lead, with as few copies as possible: after a broker has come, for example.

    Replicas are counted, not bytes. Hosts and racks are respected. Brokers that are down keep what they have.

    Examples:

      barnabas cluster rebalance

      barnabas cluster rebalance --yes --at-once 10
    """

    def planned(layout: ClusterLayout) -> ReassignmentPlan:
        from barnabas.client.placement import plan_rebalance

        return plan_rebalance(layout)

    if _plan(bootstrap, output, planned, yes, at_once):
        say("The cluster is balanced.")


def _plan(
    bootstrap: str,
    output: OutputFormat,
    planned: Callable[[ClusterLayout], ReassignmentPlan],
    yes: bool,
    at_once: int,
) -> bool:
    """Show a plan, and carry it out if that is wanted; whether there is nothing left to do."""

    async def work(client: Client) -> tuple[ReassignmentPlan, dict[str, str], int | None]:
        from barnabas.cli.cluster.plans import carry_out, show_plan
        from barnabas.client.placement import arrived_bytes, describe_layout, with_copies

        layout = await describe_layout(client)
        plan = await with_copies(client, layout, planned(layout))
        if output is OutputFormat.TABLE:
            show_plan(plan)
        if not yes:
            return plan, {}, None
        return plan, await carry_out(client, plan, at_once), await arrived_bytes(client, plan)

    plan, failed, arrived = with_client(bootstrap, work)
    if output is OutputFormat.JSON:
        show_json({**plan.document(), "carried_out": yes, "arrived_bytes": arrived, "not_elected": failed})
    elif arrived:
        say(f"{size(arrived)} lie on the brokers that have got replicas.")
    for tp, reason in failed.items():
        say(f"{tp} has not got its preferred leader: {reason}")
    if plan.is_empty:
        return True
    if not yes:
        say("Nothing was changed: --yes carries this out.")
    return yes


def _say_whether_empty(bootstrap: str, broker: int) -> None:
    """Asked afresh: a topic may have been created while others were moved."""

    async def work(client: Client) -> int:
        from barnabas.client.placement import describe_layout, replicas_on

        return replicas_on(await describe_layout(client), broker)

    left = with_client(bootstrap, work)
    if left:
        say(f"Broker {broker} has got {count(left, 'replica')} meanwhile: drain it again.")
        raise typer.Exit(1)
    say(f"Broker {broker} holds nothing any more: it may be stopped, and then `cluster unregister {broker}`.")


def _cancel(bootstrap: str, output: OutputFormat, topic: str, partition: int | None) -> None:
    async def work(client: Client) -> list[str]:
        from barnabas.client.placement import reassignments

        partitions = [
            tp
            for tp in sorted(await reassignments.under_way(client))
            if tp.topic == topic and partition in (None, tp.partition)
        ]
        if partitions:
            await reassignments.alter(client, dict.fromkeys(partitions))
        return [str(tp) for tp in partitions]

    cancelled: Sequence[str] = with_client(bootstrap, work)
    text = f"{count(len(cancelled), 'move')} called off." if cancelled else "Nothing of it is on the move."
    show_done(output, text, {"cancelled": cancelled})


def _parse_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise typer.BadParameter(
            f"{text!r} is no list of different broker ids such as 1,2,3", param_hint="--to"
        )
    return [int(part) for part in parts]
