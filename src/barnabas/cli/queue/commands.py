"""`barnabas queue`: a topic as a task queue. Publish, take and acknowledge jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Headers,
    Output,
    OutputFormat,
    complete_group,
    complete_topic,
    parse_headers,
    with_client,
)
from barnabas.cli.output import count, say, show_done, show_json, show_rows, show_table
from barnabas.cli.queue import dead_letters as queue_dead
from barnabas.common.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.client.share import QueueStatus, Refusal

app = typer.Typer(help="Use topics as task queues (share groups).", no_args_is_help=True)
app.add_typer(queue_dead.app, name="dead")

DEFAULT_GROUP = "workers"

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The queue.", autocompletion=complete_topic, show_default=False)
]
Group = Annotated[
    str,
    typer.Option(
        "--group",
        "-g",
        help="The share group: its members share the jobs of a topic.",
        autocompletion=complete_group,
    ),
]


class AcknowledgeChoice(StrEnum):
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


class JobOutcome(StrEnum):
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@app.command()
def publish(
    topic: Topic,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="The jobs, instead of standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every job.")] = None,
    header: Headers = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Delay before delivery: 30s, 10m, 2h.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Earliest delivery time: 2026-11-15T08:30.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Put jobs into a queue: the arguments, or the lines of standard input.

    Delays need a topic with barnabas.delay.enable=true.

    Examples:

      barnabas queue publish jobs '{"resize": 17}' '{"resize": 18}'

      barnabas queue publish reminders 'call back' --delay 10m
    """
    from barnabas.cli.queue.publish import delivery_headers, publish_jobs

    headers = parse_headers(header) + delivery_headers(delay, at)
    jobs = None if values is None else [value.encode() for value in values]
    encoded_key = None if key is None else key.encode()
    sent = with_client(bootstrap, lambda client: publish_jobs(client, topic, jobs, encoded_key, headers))
    if output is OutputFormat.JSON:
        show_json({"topic": topic, "published": sent})
    else:
        say(f"{count(sent, 'job')} published to {topic}.")


@app.command()
def take(
    topic: Topic,
    group: Group = DEFAULT_GROUP,
    number: Annotated[int, typer.Option("--count", "-n", min=1, help="Maximum number of jobs.")] = 1,
    wait: Annotated[str, typer.Option("--wait", "-w", help="Maximum wait for the first job: 5s, 1m.")] = "5s",
    then: Annotated[
        JobOutcome | None,
        typer.Option(
            "--then", help="Acknowledge the jobs immediately [they are held until their locks expire]."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--exec",
            "-x",
            metavar="COMMAND",
            help="Run a command for each job; its exit code acknowledges the job.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Take jobs from a queue. A new group begins with the oldest job, unless its share.auto.offset.reset is set.

    Without --then and --exec the jobs are held for as long as the group's lock lasts (30 seconds unless
    share.record.lock.duration.ms says otherwise), and each comes with a receipt for `barnabas queue ack`.

    With --exec the command gets the job on standard input, and its lock is renewed while it works: exit code 0 accepts,
    65 rejects (bad data, for the dead letters), any other releases it.

    Examples:

      barnabas queue take jobs --then accept

      barnabas queue take jobs --count 100 --exec ./resize.sh

      barnabas queue ack "$(barnabas queue take jobs -o json | jq -r '.[0].receipt')"
    """
    from barnabas.cli.queue.take import TakeSettings, take_jobs
    from barnabas.common.durations import seconds_of

    if run is not None and then is not None:
        raise typer.BadParameter("--exec acknowledges each job; omit --then")
    try:
        patience = seconds_of(wait)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from None
    taking = TakeSettings(topic, group, number, patience, then.value if then else None, run)
    rows, refusals = with_client(bootstrap, lambda client: take_jobs(client, taking))
    columns = ("place", "deliveries", "key", "value", *(("answer",) if then or run else ("receipt",)))
    show_rows(output, rows, columns, empty=f"No job in {topic} within {wait}.")
    complain(refusals)
    if not rows:
        raise typer.Exit(1)


@app.command()
def ack(
    receipts: Annotated[
        list[str],
        typer.Argument(metavar="RECEIPT...", help="The receipt printed by `take`.", show_default=False),
    ],
    verdict: Annotated[
        AcknowledgeChoice, typer.Option("--as", help="accept, release, reject or renew.")
    ] = AcknowledgeChoice.ACCEPT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Acknowledge held jobs, from any process.

    Examples:

      barnabas queue ack workers:lease-8dJ0:jobs:0:17

      barnabas queue ack workers:lease-8dJ0:jobs:0:17 --as reject
    """
    from barnabas.client.share import AcknowledgeType, answer_receipts, parse_receipt

    try:
        parsed = [parse_receipt(text) for text in receipts]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    answers = dict.fromkeys(parsed, AcknowledgeType[verdict.name])
    refusals = with_client(bootstrap, lambda client: answer_receipts(client, answers))
    complain(refusals)
    if refusals:
        raise typer.Exit(1)
    done = {"verdict": verdict, "answers": len(answers)}
    show_done(output, f"{count(len(answers), 'answer')} ({verdict}) given.", done)


@app.command()
def status(
    topic: Topic,
    group: Group = DEFAULT_GROUP,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the waiting jobs of a queue and the members of its group.

    Example:

      barnabas queue status jobs --group workers
    """
    from barnabas.client.share import describe_queue

    found: QueueStatus = with_client(bootstrap, lambda client: describe_queue(client, topic, group))
    partitions = [partition._asdict() for partition in found.partitions]
    members = [
        {**member._asdict(), "partitions": list(map(str, member.partitions))} for member in found.members
    ]
    if output is OutputFormat.JSON:
        show_json({**found._asdict(), "partitions": partitions, "members": members})
        return
    print(f"{group}  {found.state}  jobs not done: {found.lag:,}")
    show_table(partitions, ("partition", "start", "end", "lag"))
    if members:
        show_table(members, ("member", "client", "host", "partitions"))


def complain(refusals: list[Refusal]) -> None:
    """Report acknowledgements that came too late."""
    for tp, offsets, error in refusals:
        which = ", ".join(map(str, offsets[:5])) + (", ..." if len(offsets) > 5 else "")
        say(f"Not counted for {tp.topic}-{tp.partition}, offset {which}: {_why(error)}")


def _why(error: KafkaError) -> str:
    if error.code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.SHARE_SESSION_NOT_FOUND):
        return "the lock has expired, and the job was released"
    return f"{error.code.name} {error.message}"
