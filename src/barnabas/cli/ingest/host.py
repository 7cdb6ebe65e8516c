"""`barnabas ingest host`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.ingest.listening import Topic
from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers


def host(
    topic: Topic,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two samples.")] = "5s",
    service: Annotated[
        str | None, typer.Option("--service", help="What the samples are counted for. [HOST]")
    ] = None,
    prometheus: Annotated[
        list[str] | None,
        typer.Option(
            "--prometheus",
            metavar="[SERVICE=]URL",
            help="A Prometheus page, whose counters become rates. May be given several times.",
        ),
    ] = None,
    tps: Annotated[
        str | None,
        typer.Option("--tps", metavar="COUNTER", help="The counter whose rate is the transactions a second."),
    ] = None,
    agent: AgentName = None,
    header: Headers = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Measure this machine: CPU, disks, memory, network and connections, as the pipeline `operations` reads them.

    Examples:

      barnabas ingest host --topic host.metrics --every 5s

      barnabas ingest host -t shop.metrics --prometheus checkout=http://127.0.0.1:8000/metrics --tps orders_total
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.host.pages import page_of
    from barnabas.services.ingest.host.source import HostSettings, HostSource

    name = socket.gethostname()
    try:
        settings = HostSettings(
            topic=topic,
            host=name,
            service=service or name,
            every=seconds_of(every),
            pages=tuple(page_of(each, service or name) for each in prometheus or ()),
            tps=tps,
            headers=tuple(parse_headers(header)),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{name}-{topic}",
        [HostSource("host", settings)],
        reads=f"this machine into {topic}, every {every}",
        metrics=metrics,
        output=output,
    )
