"""`barnabas transactions`: list, describe and abort transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, Yes, confirm, with_client
from barnabas.cli.output import show_done, show_json, show_rows, show_table

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.protocol.messages.transactions import DescribeTransactionsTransactionState

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="ID", help="The producer's transactional.id.")]


@app.command("list")
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="Only in this state, such as Ongoing.")
    ] = None,
    longer_than: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Only what has been open for longer.")
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="Only ids that match this expression.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show all transactional ids, how long their transactions have been open, and which no timeout will end.

    Examples:

      barnabas transactions list

      barnabas transactions list --state Ongoing --longer-than 60
    """

    async def work(client: Client) -> list[dict[str, Any]]:
        from barnabas.client import transactions

        milliseconds = -1 if longer_than is None else round(longer_than * 1000)
        found = await transactions.list_transactions(client, states or (), milliseconds, pattern)
        details = await transactions.describe_open(client, found)
        return [
            {
                "id": one.transactional_id,
                "state": one.transaction_state,
                "producer_id": one.producer_id,
                **_times(details.get(one.transactional_id)),
                "coordinator": coordinator,
            }
            for coordinator, one in sorted(found, key=lambda pair: pair[1].transactional_id)
        ]

    show_rows(
        output,
        with_client(bootstrap, work),
        ("id", "state", "producer_id", "open_ms", "timeout_ms", "two_phase", "coordinator"),
        empty="No matching transactions.",
    )


@app.command()
def describe(
    name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE
) -> None:
    """Show the state of a transactional id and the partitions of its open transaction.

    Example:

      barnabas transactions describe payments-1
    """

    async def work(client: Client) -> dict[str, Any]:
        from barnabas.client import transactions

        coordinator, state = await transactions.describe_transaction(client, name)
        return {**_facts(state), "coordinator": coordinator}

    facts = with_client(bootstrap, work)
    if output is OutputFormat.JSON:
        show_json(facts)
        return
    partitions = facts.pop("partitions")
    show_table([facts], tuple(facts))
    if partitions:
        print("partitions: " + " ".join(partitions))


def _times(state: DescribeTransactionsTransactionState | None) -> dict[str, Any]:
    """Since when a transaction is open and when it is ended for its producer: never, with two-phase commit."""
    from barnabas.client.transactions import NO_TIMEOUT_MS

    if state is None:
        return {"open_ms": None, "timeout_ms": None, "two_phase": None}
    is_open = state.transaction_start_time_ms >= 0 and bool(state.topics)
    two_phase = state.transaction_timeout_ms == NO_TIMEOUT_MS
    return {
        "open_ms": time.time_ns() // 1_000_000 - state.transaction_start_time_ms if is_open else None,
        "timeout_ms": None if two_phase else state.transaction_timeout_ms,
        "two_phase": two_phase,
    }


def _facts(state: DescribeTransactionsTransactionState) -> dict[str, Any]:
    return {
        "id": state.transactional_id,
        "state": state.transaction_state,
        "producer_id": state.producer_id,
        "epoch": state.producer_epoch,
        **_times(state),
        "partitions": [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions],
    }


@app.command()
def abort(
    name: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The producer's transactional.id.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Instead of an id: where a transaction hangs.")] = None,
    partition: Annotated[int, typer.Option(min=0, help="The partition of --topic.")] = 0,
    start_offset: Annotated[
        int | None, typer.Option(min=0, help="Where the hanging transaction begins in that partition.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Abort the transaction of a transactional id, or a hanging transaction of a partition.

    The producer with this id is fenced, as if a new instance had started.

    Examples:

      barnabas transactions abort payments-1

      barnabas transactions abort --topic orders --partition 3 --start-offset 4711
    """
    if name is not None and topic is None:
        confirm(f"Abort the transaction of {name} and shut out its producer?", yes)
        _fence(bootstrap, name)
        show_done(output, f"{name} has no open transaction now, and its producer is shut out.", {"id": name})
    elif topic is not None and name is None and start_offset is not None:
        confirm(f"Abort the transaction that begins at offset {start_offset} of {topic}-{partition}?", yes)
        producer_id = _abort_hanging(bootstrap, topic, partition, start_offset)
        text = f"The transaction of producer {producer_id} in {topic}-{partition} is aborted."
        show_done(output, text, {"topic": topic, "partition": partition, "producer_id": producer_id})
    else:
        raise typer.BadParameter("give a transactional id, or --topic and --start-offset")


def _fence(bootstrap: str, name: str) -> None:
    async def work(client: Client) -> None:
        from barnabas.client import transactions

        await transactions.describe_transaction(
            client, name
        )  # fails for an unknown id, which would otherwise be created
        await transactions.fence(client, name)

    with_client(bootstrap, work)


def _abort_hanging(bootstrap: str, topic: str, partition: int, start_offset: int) -> int:
    async def work(client: Client) -> int:
        from barnabas.client import transactions
        from barnabas.common.types import TopicPartition

        tp = TopicPartition(topic, partition)
        return (await transactions.abort_hanging(client, tp, start_offset)).producer_id

    return with_client(bootstrap, work)
