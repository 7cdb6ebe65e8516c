"""`barnabas cluster move|drain|unregister|rebalance`: reassign partitions. Plans are carried out with --yes."""

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

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Carry out the plan; without it the plan is only shown.")
]
AtOnce = Annotated[
    int,
    typer.Option("--at-once", min=1, metavar="N", help="Number of partitions that move at the same time."),
]
BrokerIds = Annotated[
    str | None,
    typer.Option("--to", metavar="ID,ID,...", help="The brokers; the first is the preferred leader."),
]
DEFAULT_AT_ONCE = 50  # enough to keep disks busy, few enough to cancel


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
            "--replicas", "-r", min=1, help="Replicas of each partition [the number of brokers in --to]."
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the reassignments in progress instead.")
    ] = False,
    yes: Yes = False,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move a topic, or one of its partitions, to the given brokers. More brokers than before add replicas.

    The preferred leaders of the topic's partitions are spread evenly over these brokers.

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
    """Move all replicas off a broker before it is removed, to the brokers with the fewest replicas.

    Replicas of a partition stay on different hosts and in different racks as far as the other brokers allow it.
    Hosts are the advertised ones.
    Run it again if it was interrupted, or if topics were created on the broker meanwhile.

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
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of a stopped broker.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove a stopped broker from the cluster: the last step after `drain`.

    Records whose only replica is on this broker are lost.

    Example:

      barnabas cluster unregister 3
    """

    async def work(client: Client) -> None:
        from barnabas.client import admin

        await admin.unregister_broker(client, broker)

    confirm(f"Unregister broker {broker} and give up its remaining replicas?", yes)
    with_client(bootstrap, work)
    show_done(output, f"Broker {broker} is no longer part of the cluster.", {"id": broker})


def rebalance(
    yes: Yes = False,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Spread replicas and leaders evenly over the brokers with as few copies as possible, for example after adding one.

    It balances the number of replicas, not bytes, and respects hosts and racks. Stopped brokers keep their replicas.

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
    """Show a plan and, with `yes`, carry it out. Returns True if nothing is left to do."""

    async def work(client: Client) -> tuple[ReassignmentPlan, dict[str, str], int | None]:
        from barnabas.cli.cluster.plans import carry_out, show_plan
        from barnabas.client.placement import arrived_bytes, below_min_isr, describe_layout, with_copies

        layout = await describe_layout(client)
        plan = await with_copies(client, layout, planned(layout))
        if output is OutputFormat.TABLE:
            show_plan(plan)
        for tp, minimum in (await below_min_isr(client, plan)).items():
            say(
                f"Warning: {tp} would have fewer replicas than its min.insync.replicas={minimum}: producers with "
                "acks=all would be refused. Name more brokers with --to, or lower the setting."
            )
        if not yes:
            return plan, {}, None
        return plan, await carry_out(client, plan, at_once), await arrived_bytes(client, plan)

    plan, failed, arrived = with_client(bootstrap, work)
    if output is OutputFormat.JSON:
        show_json({**plan.document(), "carried_out": yes, "arrived_bytes": arrived, "not_elected": failed})
    elif arrived:
        say(f"{size(arrived)} stored on the brokers that received replicas.")
    for tp, reason in failed.items():
        say(f"{tp} did not get its preferred leader: {reason}")
    if plan.is_empty:
        return True
    if not yes:
        say("Nothing was changed. --yes carries out the plan.")
    return yes


def _say_whether_empty(bootstrap: str, broker: int) -> None:
    """Count the replicas again: a topic may have been created during the moves."""

    async def work(client: Client) -> int:
        from barnabas.client.placement import describe_layout, replicas_on

        return replicas_on(await describe_layout(client), broker)

    left = with_client(bootstrap, work)
    if left:
        say(f"Broker {broker} received {count(left, 'replica')} meanwhile: drain it again.")
        raise typer.Exit(1)
    say(f"Broker {broker} has no replicas left. Stop it, then run `barnabas cluster unregister {broker}`.")


def _cancel(bootstrap: str, output: OutputFormat, topic: str, partition: int | None) -> None:
    async def work(client: Client) -> list[str]:
        from barnabas.client.placement import reassignments

        partitions = [
            tp
            for tp in sorted(await reassignments.in_progress(client))
            if tp.topic == topic and partition in (None, tp.partition)
        ]
        if partitions:
            await reassignments.alter(client, dict.fromkeys(partitions))
        return [str(tp) for tp in partitions]

    cancelled: Sequence[str] = with_client(bootstrap, work)
    text = f"{count(len(cancelled), 'move')} cancelled." if cancelled else "No reassignment in progress."
    show_done(output, text, {"cancelled": cancelled})


def _parse_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise typer.BadParameter(
            f"not a list of distinct broker ids: {text!r} (example: 1,2,3)", param_hint="--to"
        )
    return [int(part) for part in parts]
