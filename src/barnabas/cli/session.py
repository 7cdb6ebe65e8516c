"""A client for the length of one command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from barnabas.cli.command_config import command_security

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

T = TypeVar("T")

PATIENCE = 30.0  # seconds for one call with all its attempts: longer, and a person thinks the command hangs


def with_client(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run a coroutine function with a connected client and return its result."""
    import asyncio

    return asyncio.run(_run(bootstrap, work))


async def _run(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    from barnabas.client.cluster import Client
    from barnabas.client.security.settings import SecuritySettingError

    try:
        security = command_security()
        client = Client(bootstrap, client_id="barnabas-cli", total_timeout=PATIENCE, security=security)
    except SecuritySettingError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap-server") from None
    async with client:
        return await work(client)
