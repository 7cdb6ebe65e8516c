"""`barnabas queue dead`: list, show and redrive the dead letters of share groups."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    complete_topic,
    with_client,
)
from barnabas.cli.output import count, say, show_json, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.share import DeadLetter, DeadLetterFilter, RedriveResult, Sendable

app = typer.Typer(help="List dead letters and send them back.", no_args_is_help=True)

COLUMNS = ("letter", "time", "origin", "group", "deliveries", "reason", "value")
SHORT = 60

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="The dead-letter topic.", autocompletion=complete_topic, show_default=False
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="FIELD=PATTERN", help="Filter such as reason=*rejected*; all must match."
    ),
]
Limit = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Maximum number.")]


@app.command("list")
def list_letters(
    topic: Topic,
    where: Where = None,
    limit: Limit = None,
    everything: Annotated[bool, typer.Option("--all", help="Include redriven ones.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List dead letters with their origin and reason.

    Fields of --where: topic, partition, offset, group, deliveries, reason, key.

    Examples:

      barnabas queue dead list dlq.jobs

      barnabas queue dead list dlq.jobs --where 'reason=*count exceeded*' -o json
    """
    chosen = _filter(where)
    letters = with_client(bootstrap, lambda client: _read(client, topic, chosen, limit, everything))
    rows = [_row(letter, show_all=output is OutputFormat.JSON) for letter in letters]
    show_rows(output, rows, COLUMNS, empty=f"No dead letters in {topic}.")


@app.command()
def show(
    topic: Topic,
    letter: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Position as shown by `list`.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show a dead letter completely.

    Example:

      barnabas queue dead show dlq.jobs 0:17
    """

    async def work(client: Client) -> list[DeadLetter]:
        from barnabas.client.share import read_letters

        return await read_letters(client, topic, lambda found: found.where == letter)

    found = with_client(bootstrap, work)
    if not found:
        say(f"No dead letter {letter} in {topic}; `barnabas queue dead list {topic}` lists them.")
        raise typer.Exit(1)
    facts = _row(found[0], show_all=True)
    if output is OutputFormat.JSON:
        show_json(facts)
        return
    for name, value in facts.items():
        print(f"{name:12} {value}")


@app.command()
def redrive(
    topic: Topic,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", help="Target topic [the origin].", autocompletion=complete_topic
        ),
    ] = None,
    where: Where = None,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Send dead letters back to their original topics, each once.

    Records of another kind, such as those written by hand, have no origin: they are sent with --to only.

    Examples:

      barnabas queue dead redrive dlq.jobs --dry-run

      barnabas queue dead redrive dlq.jobs --where topic=jobs --to jobs-repaired
    """
    chosen = _sendable(where, to)
    letters = with_client(bootstrap, lambda client: _read(client, topic, chosen, limit, everything=False))
    if dry_run:
        rows = [{**_row(letter), "to": to or letter.origin.topic} for letter in letters]
        show_rows(output, rows, (*COLUMNS, "to"), empty=f"Nothing in {topic} would be sent.")
        return
    outcome = with_client(bootstrap, lambda client: _redrive(client, topic, letters, to))
    lost = [letter.where for letter in outcome.lost]
    if output is OutputFormat.JSON:
        show_json({"topic": topic, "sent": outcome.sent, "lost": lost})
    else:
        say(f"{count(outcome.sent, 'dead letter')} sent to {to or 'where they came from'}.")
        if chosen.left_out:
            say(f"{count(chosen.left_out, 'record')} of another kind stayed: send them with --to TOPIC.")
    if lost:
        say(f"Content neither copied nor still in its topic, so not sent: {', '.join(lost)}.")
        raise typer.Exit(1)


def _filter(where: list[str] | None) -> DeadLetterFilter:
    from barnabas.client.share import DeadLetterFilter

    try:
        return DeadLetterFilter(where or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None


def _sendable(where: list[str] | None, to: str | None) -> Sendable:
    from barnabas.client.share import Sendable

    return Sendable(_filter(where), to)


async def _read(
    client: Client, topic: str, chosen: Callable[[DeadLetter], bool], limit: int | None, everything: bool
) -> list[DeadLetter]:
    from barnabas.client.share import pending_letters, read_letters

    read = read_letters if everything else pending_letters
    return await read(client, topic, chosen, limit=limit)


async def _redrive(client: Client, topic: str, letters: list[DeadLetter], to: str | None) -> RedriveResult:
    from barnabas.cli.output import ProgressBar
    from barnabas.client.share import redrive

    with ProgressBar(f"from {topic}", len(letters), unit="letters") as progress:
        return await redrive(client, topic, letters, to, progress.reached)


def _row(letter: DeadLetter, *, show_all: bool = False) -> dict[str, Any]:
    time_text = datetime.datetime.fromtimestamp(letter.timestamp / 1000).astimezone()
    row: dict[str, Any] = {
        "letter": letter.where,
        "time": time_text.isoformat(" ", "seconds"),
        "origin": f"{letter.origin.topic}-{letter.origin.partition}@{letter.origin_offset}",
        "group": letter.group,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "key": _text(letter.key, show_all),
        "value": _text(letter.value, show_all),
    }
    if show_all:
        row["headers"] = {name: _text(value, show_all) for name, value in letter.headers}
    return row


def _text(value: bytes | None, show_all: bool) -> str | None:
    if value is None:
        return None
    text = value.decode(errors="backslashreplace")
    return text if show_all or len(text) <= SHORT else text[: SHORT - 1] + "…"
