"""Headers of records on the command line."""

from __future__ import annotations

import typer


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`NAME=VALUE`, or `NAME` for a header without a value."""
    name, equals, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode() if equals else None
