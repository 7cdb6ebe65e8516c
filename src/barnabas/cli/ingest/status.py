"""`barnabas ingest status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.output import show_rows, size

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.status import ProcessStatus, StatusPart

COLUMNS = (
    "agent", "source", "state", "host", "files", "records", "read", "lag", "last_commit", "dead_letters", "errors",
    "problem",
)  # fmt: skip


def status(
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget", metavar="AGENT", help="Remove the status of an agent that will not run again."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the status of agents by source: records read, backlog and errors.

    An agent that stopped reporting is `lost`. Needs Read and Describe on __barnabas_status, and --forget Write.

    Examples:

      barnabas ingest status

      barnabas ingest status -o json
    """

    async def work(client: Client) -> list[ProcessStatus]:
        from barnabas.client.status import forget_status, read_statuses

        if forget is not None:
            await forget_status(client, "agent", forget)
        return await read_statuses(client, "agent")

    found = with_client(bootstrap, work)
    rows = [_row(agent, part, output) for agent in found for part in agent.parts]
    show_rows(output, rows, COLUMNS, "No agent has reported yet. `barnabas ingest files` starts one.")


def _row(agent: ProcessStatus, part: StatusPart, output: OutputFormat) -> dict[str, Any]:
    counts = part.counts
    people = output is OutputFormat.TABLE
    row = {
        "agent": agent.name,
        "source": part.name,
        "state": agent.state if agent.state != "running" else part.state,
        "host": agent.host,
        "files": counts.get("files"),
        "records": counts.get("records", 0),
        "read": size(int(counts.get("bytes", 0))) if people else counts.get("bytes", 0),
        "lag": part.lag if part.lag is None or not people else size(part.lag),
        "last_commit": _moment(int(counts.get("last_commit", 0)), people=people),
        "dead_letters": counts.get("dead_letters", 0),
        "errors": counts.get("errors", 0),
        "problem": part.reason or agent.error,
    }
    if people:
        return row
    return {
        **row,
        "process": agent.process,
        "started": agent.started,
        "updated": agent.updated,
        "counts": counts,
    }


def _moment(milliseconds: int, *, people: bool) -> Any:
    """A local time for display, or milliseconds; None means never."""
    if not milliseconds:
        return None
    if not people:
        return milliseconds
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")
