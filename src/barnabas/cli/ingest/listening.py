"""Options that several sources have."""

from __future__ import annotations

from typing import Annotated

import typer

from barnabas.cli.records.produce import Compression

Topic = Annotated[str, typer.Option("--topic", "-t", help="Where to; created if it is missing.")]
CompressionOption = Annotated[
    Compression, typer.Option("--compression", "-z", help="How batches are compressed.")
]
TlsCertificate = Annotated[
    str | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Speak TLS with this certificate (PEM, PKCS12)."),
]
TlsKey = Annotated[
    str | None, typer.Option("--tls-key", metavar="FILE", help="Its key, if that is in another file.")
]
TlsClientCa = Annotated[
    str | None,
    typer.Option("--tls-client-ca", metavar="FILE", help="Clients need a certificate that it has signed."),
]
