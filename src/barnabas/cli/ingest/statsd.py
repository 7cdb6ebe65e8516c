"""`barnabas ingest statsd`."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.ingest.listening import Topic
from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers


def statsd(
    topic: Topic,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="[udp|tcp://]HOST:PORT",
            help="UDP and TCP, or one of them; may be repeated. [127.0.0.1:8125]",
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two reports.")] = "10s",
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every record. [what was measured]")
    ] = None,
    header: Headers = None,
    agent: AgentName = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Take what programs count and time over statsd's protocol, and report it every few seconds.

    Examples:

      barnabas ingest statsd --topic metrics --every 10s

      echo 'orders:1|c|#shop:berlin' > /dev/udp/127.0.0.1/8125
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.sockets.endpoints import endpoints_of
    from barnabas.services.ingest.statsd.settings import DEFAULT_LISTEN, StatsdSettings
    from barnabas.services.ingest.statsd.source import StatsdSource

    host = socket.gethostname()
    try:
        settings = StatsdSettings(
            topic=topic,
            host=host,
            listen=listen or DEFAULT_LISTEN,
            every=seconds_of(every),
            key=key,
            headers=tuple(parse_headers(header)),
        )
        source = StatsdSource("statsd", settings)
        where = ", ".join(map(str, endpoints_of(settings)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{host}-{topic}",
        [source],
        reads=f"statsd on {where} into {topic}, every {every}",
        metrics=metrics,
        output=output,
    )
