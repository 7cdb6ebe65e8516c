"""Runs an agent until a signal, shows its progress and publishes its status and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import OutputFormat, with_client
from barnabas.cli.output import count, say, show_json, size

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.services.ingest import Agent, IngestSource

SHOW_SECONDS = 0.5
WORTH_SHOWING = 16 * 1024 * 1024
"""Bytes to catch up on for a progress bar; fewer are read too fast to show one."""

AgentName = Annotated[
    str | None,
    typer.Option("--agent", help="The agent's name: its positions are stored under it. [HOST-TOPIC]"),
]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there."),
]


def run_agent(
    bootstrap: str,
    name: str,
    sources: Sequence[IngestSource],
    *,
    reads: str,
    metrics: str | None,
    output: OutputFormat,
    exit_at_end: bool = False,
) -> None:
    """Run until Ctrl-C or SIGTERM, or with `exit_at_end` until all data is read, then print the totals."""
    from barnabas.common.allocation import keep_freed_memory

    address = _address(metrics)
    keep_freed_memory()  # buffers of some MiB are allocated many times a second

    async def work(client: Client) -> Agent:
        return await _run(client, name, sources, reads, address, exit_at_end=exit_at_end)

    counts = with_client(bootstrap, work).counts
    if output is OutputFormat.JSON:
        show_json({"agent": name, "records": counts.records, "bytes": counts.bytes})
    else:
        say(f"{count(counts.records, 'record')} ({size(counts.bytes)}) read by {name}.")


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(
            f"not a valid address: {text!r} (example: 127.0.0.1:9180)", param_hint="--metrics"
        )
    return host.strip("[]"), int(port)


async def _run(
    client: Client,
    name: str,
    sources: Sequence[IngestSource],
    reads: str,
    metrics: tuple[str, int] | None,
    *,
    exit_at_end: bool,
) -> Agent:
    import asyncio
    import signal

    from barnabas.services.ingest import Agent

    agent, stop = Agent(client, name, sources), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with _reported(client, agent), _served(agent, metrics) as page:
        say(f"{name} reads {reads}.{page} Ctrl-C stops it.")
        showing = asyncio.create_task(_show(agent))
        try:
            await agent.run(stop, exit_at_end=exit_at_end)
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
    return agent


@asynccontextmanager
async def _reported(client: Client, agent: Agent) -> AsyncIterator[None]:
    """Publish the agent's status to `__barnabas_status`, including the final one."""
    import asyncio

    from barnabas.client.status import StatusReporter
    from barnabas.services.ingest import status_of

    reporter = StatusReporter(client, lambda: status_of(agent))
    reporting = asyncio.create_task(reporter.run())
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        await reporter.report()


@asynccontextmanager
async def _served(agent: Agent, address: tuple[str, int] | None) -> AsyncIterator[str]:
    """Serve the agent's metrics; yields a message with the URL."""
    if address is None:
        yield ""
        return
    from barnabas.metrics import Registry
    from barnabas.services.ingest import declare_agent_metrics
    from barnabas.web import MetricsServer

    registry = Registry()
    declare_agent_metrics(registry, agent)
    server = MetricsServer(registry, lambda: (agent.state == "running", {"status": agent.state}))
    await server.start(*address)
    try:
        yield f" Metrics: http://{address[0] or '127.0.0.1'}:{server.port}/metrics."
    finally:
        await server.stop()


async def _show(agent: Agent) -> None:
    """Show the progress of a backfill, if there is something to catch up on."""
    import asyncio

    from barnabas.cli.output import ProgressBar
    from barnabas.services.ingest.files import FilesSource

    sources = [source for source in agent.sources if isinstance(source, FilesSource)]

    def behind() -> tuple[int, int]:
        read, there = zip(*(source.behind() for source in sources), strict=True)
        return sum(read), sum(there)

    while sources:
        await asyncio.sleep(SHOW_SECONDS)
        read, there = behind()
        if there - read < WORTH_SHOWING:
            continue
        with ProgressBar("catching up", there) as progress:
            while read < there:
                progress.reached(read, there)
                await asyncio.sleep(SHOW_SECONDS)
                read, there = behind()
