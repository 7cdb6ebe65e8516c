"""`barnabas ingest syslog`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers
from barnabas.cli.records.produce import Compression

# -- Options shared by several sources -----------------------------------------------------------------

Topic = Annotated[str, typer.Option("--topic", "-t", help="The target topic; created if missing.")]
CompressionOption = Annotated[
    Compression, typer.Option("--compression", "-z", help="Compression codec of batches.")
]
TlsCertificate = Annotated[
    str | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Enable TLS with this certificate (PEM, PKCS12)."),
]
TlsKey = Annotated[
    str | None, typer.Option("--tls-key", metavar="FILE", help="The private key, if it is in another file.")
]
TlsClientCa = Annotated[
    str | None,
    typer.Option("--tls-client-ca", metavar="FILE", help="CA that must have signed the client certificates."),
]


class SyslogOutput(StrEnum):
    JSON = "json"
    RAW = "raw"


def syslog(
    topic: Topic,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="[udp|tcp|tls://]HOST:PORT",
            help="UDP and TCP, or TLS with a certificate; may be repeated. [127.0.0.1:5514]",
        ),
    ] = None,
    value: Annotated[
        SyslogOutput, typer.Option("--format", help="Values: fields as JSON, or messages unchanged.")
    ] = SyslogOutput.JSON,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every record. [the message's host]")
    ] = None,
    header: Headers = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    max_message_bytes: Annotated[
        int,
        typer.Option(
            "--max-message-bytes",
            min=480,
            help="Longer messages are truncated; octet-counted ones are rejected.",
        ),
    ] = 64 * 1024,
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="Maximum number of open connections.")
    ] = 500,
    idle_timeout: Annotated[
        str, typer.Option("--idle-timeout", metavar="TIME", help="Idle timeout of a connection.")
    ] = "1h",
    compression: CompressionOption = Compression.NONE,
    agent: AgentName = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Receive syslog over UDP, TCP and TLS: RFC 5424 and RFC 3164, with octet counting or one message per line.

    Syslog has no acknowledgements: messages in memory are lost if the agent is killed.

    Examples:

      barnabas ingest syslog --listen 127.0.0.1:5514 --topic syslog

      barnabas ingest syslog -t syslog -l udp://0.0.0.0:514 -l tls://0.0.0.0:6514 --tls-certificate agent.pem
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.sockets import endpoints_of
    from barnabas.services.ingest.syslog import DEFAULT_LISTEN, SyslogSettings, SyslogSource

    try:
        settings = SyslogSettings(
            topic=topic,
            listen=listen or DEFAULT_LISTEN,
            format=value.value,
            key=key,
            headers=tuple(parse_headers(header)),
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            max_message_bytes=max_message_bytes,
            connections=connections,
            idle_timeout=seconds_of(idle_timeout),
            compression=compression.value,
        )
        where = ", ".join(map(str, endpoints_of(settings)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{socket.gethostname()}-{topic}",
        [SyslogSource("syslog", settings)],
        reads=f"syslog on {where} into {topic}",
        metrics=metrics,
        output=output,
    )
