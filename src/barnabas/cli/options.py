"""Options that many commands share, so that they are spelt and explained alike everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="A broker of the cluster; several may be given, separated by commas.",
    ),
]

Output = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="A table for people, or JSON for programs."),
]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting by Kafka's name; may be repeated."),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before data are removed.")]

Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated.")
]


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """`["retention.ms=1000"]` as a mapping; a usage error for what is no pair."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, for example retention.ms=86400000")
        settings[name.strip()] = value.strip()
    return settings


def parse_headers(texts: list[str] | None) -> list[tuple[str, bytes | None]]:
    """Each `NAME=VALUE`, or `NAME` for a header without a value."""
    return [_parse_header(text) for text in texts or ()]


def _parse_header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode() if equals else None


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost; answering no ends the command."""
    if not yes:
        typer.confirm(question, abort=True, err=True)
