"""Reassignment plans: display and execution with progress."""

from __future__ import annotations

import asyncio

from barnabas.cli.output import ProgressBar, count, say, show_table, size
from barnabas.client import Client
from barnabas.client.placement import ReassignmentPlan, reassignments

SHOWN = 30  # moves that a table names; JSON has all of them


def show_plan(plan: ReassignmentPlan) -> None:
    if plan.is_empty:
        print("Nothing to do.")
        return
    rows = [
        {**row, "copied": size(row["copied_bytes"]) if row["copied_bytes"] else "-"}
        for row in plan.document()["moves"]
    ]
    if rows:
        show_table(rows[:SHOWN], ("topic", "partition", "before", "after", "copied"))
    if len(rows) > SHOWN:
        print(f"... and {len(rows) - SHOWN:,} more: -o json shows all")
    copies = sum(len(move.added) for move in plan.moves)
    print(
        f"{count(len(plan.moves), 'partition')} to change, {count(copies, 'replica')} to copy "
        f"({size(plan.copied_bytes)}), {count(len(plan.elections), 'leader')} to elect"
    )
    if plan.remote_bytes:
        print(f"{size(plan.remote_bytes)} in the object store stay there")


async def carry_out(client: Client, plan: ReassignmentPlan, at_once: int) -> dict[str, str]:
    """Return the partitions without their preferred leader, with the reason."""
    try:
        with ProgressBar("moving", len(plan.moves), unit="partitions") as progress:
            await reassignments.carry_out(client, plan.moves, at_once, progress.reached)
    except asyncio.CancelledError:
        say(
            "Stopped. Reassignments in progress continue (`barnabas cluster status`); the others were not started."
        )
        raise
    failed = await reassignments.elect_preferred(client, plan.elections)
    return {str(tp): reason for tp, reason in failed.items()}
