"""Options that select flows, compute them again or backfill them, and the table of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from barnabas.pipelines.definitions import PipelineFiles
    from barnabas.pipelines.running import Backfill, FlowSelection, Runner

Refresh = Annotated[
    str | None,
    typer.Option("--refresh", metavar="NAME,...", help="Run only these flows, or those of these tables."),
]
FullRefresh = Annotated[
    str | None,
    typer.Option(
        "--full-refresh",
        metavar="NAME,...",
        help="Delete checkpoints and tables of these flows and compute them from the beginning.",
    ),
]
BackfillFlow = Annotated[
    str | None,
    typer.Option("--backfill", metavar="FLOW", help="Read a range of its topics again; needs --from."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHEN",
        help='Start of a backfill: a time (2026-11-16T07:00:00Z), earliest or offsets ({"orders":{"0":23}}).',
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="WHEN", help="End of a backfill, exclusive [where the flow has read to]."),
]


def selection_of(refresh: str | None, full_refresh: str | None) -> FlowSelection:
    from barnabas.pipelines.running import FlowSelection

    return FlowSelection(_names(refresh), _names(full_refresh))


def backfill_of(
    flow: str | None, start: str | None, end: str | None, *, excluded: bool = False
) -> Backfill | None:
    """Return None without --backfill; `excluded` if an option was given that a backfill excludes."""
    if flow is None:
        if start is not None or end is not None:
            raise typer.BadParameter("--from and --to belong to --backfill")
        return None
    if start is None:
        raise typer.BadParameter("--backfill needs --from")
    if excluded:
        raise typer.BadParameter(
            "--backfill runs once and alone, without --continuous, --every, --refresh and --full-refresh"
        )
    from barnabas.pipelines.running import Backfill

    return Backfill.parse(flow, start, end)


def plan_rows(runner: Runner) -> list[dict[str, Any]]:
    from barnabas.pipelines.running import location_of

    return [
        {
            "flow": query.name,
            "kind": "stream" if query.streaming else "view",
            "mode": query.mode if query.streaming else "complete",
            "writes_to": location_of(query.target),
            "columns": query.frame.columns,
        }
        for query in runner.plan.queries
    ]


def _names(text: str | None) -> frozenset[str]:
    return frozenset(name.strip() for name in (text or "").split(",") if name.strip())


# -- Runs of Spark's own runner ----------------------------------------------------------------------------


def run_on_connect_server(
    files: PipelineFiles, command: str, master: str | None, options: Mapping[str, object]
) -> None:
    """With a Spark Connect server, run Spark's runner and exit. `options` are those of our runner, by name."""
    from barnabas.pipelines.running import connect_server

    given = [f"--{name}" for name, value in options.items() if value]
    if remote := connect_server(files, master, given):
        run_with_spark(files, command, remote)


def run_with_spark(files: PipelineFiles, command: str, remote: str = "") -> NoReturn:
    from barnabas.pipelines import running

    if command == "run":
        running.make_topics(files)
    raise typer.Exit(running.run_with_spark(files, command, remote))
