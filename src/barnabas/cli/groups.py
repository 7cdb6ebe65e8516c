"""`barnabas groups`: members, lag, rebalances and committed offsets of groups."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Yes,
    complete_group,
    complete_topic,
    confirm,
    with_client,
)
from barnabas.cli.output import count, say, show_done, show_json, show_rows, show_table

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.group_details import GroupDetails, OffsetReset, Rebalance

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.", autocompletion=complete_group)]
Names = Annotated[
    list[str], typer.Argument(metavar="GROUP...", help="One or more groups.", autocompletion=complete_group)
]

OFFSET_COLUMNS = ("topic", "partition", "committed", "end", "lag", "client", "host")
MEMBER_COLUMNS = ("member", "instance", "client", "host", "partitions")
HISTORY_COLUMNS = ("time", "generation", "members", "why")
HOURS_OF_HISTORY = 24


@app.command("list")
def list_groups(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """Show all groups.

    Examples:

      barnabas groups list

      barnabas groups list -o json | jq -r '.[] | select(.state == "Empty") | .group'
    """
    rows = with_client(bootstrap, _list)
    show_rows(
        output,
        rows,
        ("group", "state", "type", "protocol", "coordinator"),
        empty="No groups. A consumer with a group.id creates one.",
    )


@app.command()
def describe(
    names: Names, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE
) -> None:
    """Show members, committed offsets and lag of groups.

    Examples:

      barnabas groups describe billing

      barnabas groups describe billing -o json | jq '.[0].lag'
    """

    async def work(client: Client) -> list[GroupDetails]:
        from barnabas.client.group_details import describe_group

        return [await describe_group(client, name) for name in names]

    described = [_document(group) for group in with_client(bootstrap, work)]
    if output is OutputFormat.JSON:
        show_json(described)
        return
    for group in described:
        print(
            f"{group['group']}  {group['state']}  {group['type']}  assignor: {group['assignor'] or '-'}  "
            f"coordinator: {group['coordinator']}  lag: {group['lag']:,}"
        )
        if group["offsets"]:
            show_table(group["offsets"], OFFSET_COLUMNS)
        if group["members"]:
            show_table(group["members"], MEMBER_COLUMNS)


@app.command()
def history(
    name: Name,
    hours: Annotated[float, typer.Option("--hours", help="Hours of history to read.")] = HOURS_OF_HISTORY,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show when and why a group was rebalanced.

    The history is read from __consumer_offsets, as far as that has not been compacted. Apache Kafka does not record
    the reasons.

    Example:

      barnabas groups history billing --hours 2
    """

    async def work(client: Client) -> list[Rebalance]:
        from barnabas.client.group_details import rebalance_history

        return await rebalance_history(client, name, hours)

    rows = [_history_row(rebalance) for rebalance in with_client(bootstrap, work)]
    show_rows(output, rows, HISTORY_COLUMNS, empty=f"{name} was not rebalanced in the last {hours:g} hours.")


@app.command()
def reset(
    name: Name,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="beginning, end, an offset, -N for the last N records, or a time such as 2026-11-15T08:30.",
        ),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            help="Only this topic [all with committed offsets]; may be repeated.",
            autocompletion=complete_topic,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Reset the committed offsets of a group. Stop its consumers first.

    Examples:

      barnabas groups reset billing --to beginning --dry-run

      barnabas groups reset billing --to 2026-11-15T08:30 --topic orders
    """

    from barnabas.client.offsets import parse_start

    try:
        start = parse_start(to)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from None

    async def work(client: Client) -> list[OffsetReset]:
        from barnabas.client.group_details import reset_group

        return await reset_group(client, name, start, topics, dry_run=dry_run)

    rows = [reset._asdict() for reset in with_client(bootstrap, work)]
    if not rows:
        raise typer.BadParameter(f"{name} has no committed offsets; give --topic TOPIC", param_hint="--topic")
    show_rows(output, rows, ("topic", "partition", "before", "after"))
    verb = "would change" if dry_run else "changed"
    say(f"{count(len(rows), 'offset')} of {name} {verb}.")


@app.command()
def delete(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete groups and their committed offsets. Stop their consumers first.

    Example:

      barnabas groups delete billing --yes
    """

    async def work(client: Client) -> None:
        from barnabas.client import groups

        for name in names:
            await groups.delete_group(client, name)

    confirm(f"Delete {', '.join(names)} with all committed offsets?", yes)
    with_client(bootstrap, work)
    show_done(output, f"Deleted {', '.join(names)}.", {"deleted": names})


def _document(group: GroupDetails) -> dict[str, Any]:
    return {
        **group._asdict(),
        "offsets": [offset._asdict() for offset in group.offsets],
        "members": [
            {**member._asdict(), "partitions": [str(tp) for tp in sorted(member.partitions)]}
            for member in group.members
        ],
    }


def _history_row(rebalance: Rebalance) -> dict[str, Any]:
    row = rebalance._asdict()
    time_text = datetime.datetime.fromtimestamp(row.pop("timestamp") / 1000).astimezone()
    return {"time": time_text.isoformat(timespec="milliseconds"), **row}


async def _list(client: Client) -> list[dict[str, Any]]:
    from barnabas.client import groups

    found = await groups.list_groups(client)
    return [
        {
            "group": group.group_id,
            "state": group.group_state,
            "type": group.group_type,
            "protocol": group.protocol_type,
            "coordinator": coordinator,
        }
        for coordinator, group in sorted(found, key=lambda pair: pair[1].group_id)
    ]
