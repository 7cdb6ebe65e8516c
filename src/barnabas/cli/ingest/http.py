"""`barnabas ingest http`: an HTTP endpoint as a source of an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.ingest.running import AgentName, Metrics, run_agent
from barnabas.cli.ingest.syslog import CompressionOption, TlsCertificate, TlsClientCa, TlsKey, Topic
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Headers, Output, OutputFormat, parse_headers
from barnabas.cli.records.produce import Compression


def http(
    topic: Topic,
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Listen address.")
    ] = "127.0.0.1:8088",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_field: Annotated[
        str | None,
        typer.Option("--key-field", metavar="NAME", help="The field that is the key: user, or user.id."),
    ] = None,
    header: Headers = None,
    http_header: Annotated[
        list[str] | None,
        typer.Option("--http-header", metavar="NAME", help="A request header to copy to the records."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="File of accepted bearer tokens, one per line."),
    ] = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow remote writes without TLS or without authentication.")
    ] = False,
    max_body_bytes: Annotated[
        int, typer.Option("--max-body-bytes", min=1, help="Maximum body size after decompression.")
    ] = 4 * 1024 * 1024,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="TIME", help="Time to wait for the commit; then the response is 503."
        ),
    ] = "30s",
    idempotency_keys: Annotated[
        int,
        typer.Option(
            "--idempotency-keys", min=1, help="Number of remembered keys; the oldest are dropped first."
        ),
    ] = 1_000_000,
    idempotency_ttl: Annotated[
        str, typer.Option("--idempotency-ttl", metavar="TIME", help="How long a key is remembered.")
    ] = "1d",
    compression: CompressionOption = Compression.NONE,
    agent: AgentName = None,
    metrics: Metrics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Receive JSON over HTTP. The response is 200 after the commit, once for each Idempotency-Key.

    Examples:

      barnabas ingest http --listen 127.0.0.1:8088 --topic events

      curl -H 'Content-Type: application/json' -H 'Idempotency-Key: 1' -d '{"user": 7}' http://127.0.0.1:8088/

      barnabas ingest http -t events -l 0.0.0.0:8088 --tls-certificate door.pem --token-file tokens --key-field user
    """
    import socket

    from barnabas.common.durations import seconds_of
    from barnabas.services.ingest.http import HttpSettings, HttpSource

    try:
        settings = HttpSettings(
            topic=topic,
            listen=listen,
            key=key,
            key_field=key_field,
            headers=tuple(parse_headers(header)),
            http_headers=tuple(http_header or ()),
            token_file=token_file,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            insecure=insecure,
            max_body_bytes=max_body_bytes,
            timeout=seconds_of(timeout),
            idempotency_keys=idempotency_keys,
            idempotency_ttl=seconds_of(idempotency_ttl),
            compression=compression.value,
        )
        source = HttpSource("http", settings)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run_agent(
        bootstrap,
        agent or f"{socket.gethostname()}-{topic}",
        [source],
        reads=f"{source.url} into {topic}",
        metrics=metrics,
        output=output,
    )
