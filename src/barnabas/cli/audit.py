"""`barnabas audit`: read the audit log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.records.consume import ConsumePlan, consume_plan

if TYPE_CHECKING:
    from barnabas.client import Client, ConsumedRecord

app = typer.Typer(help="Read the audit log: who did what to which resource.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Read the audit log: who did what to which resource."""


@app.command()
def tail(
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Number of recent events to show.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the last events of the topic __barnabas_audit.

    Brokers write to it with barnabas.audit.topic.enable=true. Reading it needs Read on that topic.

    Examples:

      barnabas audit tail

      barnabas audit tail --follow -o json
    """
    from barnabas.client.offsets import parse_start
    from barnabas.security.authz import TOPIC

    write = _as_json if output is OutputFormat.JSON else _as_line
    start = parse_start(f"-{count}" if count else "end")
    plan = ConsumePlan([TOPIC], [], start, None, not follow, False, write)

    async def work(client: Client) -> int:
        return await consume_plan(client, plan)

    with_client(bootstrap, work)


def _as_json(record: ConsumedRecord) -> bytes:
    return (record.value or b"{}") + b"\n"


def _as_line(record: ConsumedRecord) -> bytes:
    try:
        line = describe_event(json.loads(record.value or b"{}"))
    except ValueError:
        line = "unreadable event"
    return line.encode(sys.stdout.encoding or "utf-8", "replace") + b"\n"


def describe_event(event: dict[str, Any]) -> str:
    """Format an event as one line of text."""
    start = f"{event.get('time', '?')}  broker {event.get('node', '?')}  "
    kind = event.get("event")
    if kind == "lost":
        return f"{start}{event.get('count')} events were lost"
    principal = f"{event.get('principal') or 'unknown user'} from {event.get('host')}"
    outcome = "allowed" if event.get("allowed") else "DENIED"
    if kind == "login":
        return f"{start}{outcome}  {principal} logs in with {event.get('mechanism')}"
    resource = f"{event.get('resource_type')} {event.get('resource')}"
    return f"{start}{outcome}  {principal} {event.get('api')}: {event.get('operation')} {resource}"
