"""A client for the length of one command, or of one completion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from barnabas.cli.command_config import command_security
from barnabas.cli.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

T = TypeVar("T")

PATIENCE = 30.0  # seconds for one call with all its attempts: longer, and a person thinks the command hangs
COMPLETION_TIMEOUT = 1.0


def with_client(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run a coroutine function with a connected client and return its result."""
    import asyncio

    return asyncio.run(_run(bootstrap, work))


async def _run(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    from barnabas.client.cluster import Client
    from barnabas.security.secret import SecuritySettingError

    try:
        security = command_security()
        client = Client(bootstrap, client_id="barnabas-cli", total_timeout=PATIENCE, security=security)
    except SecuritySettingError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap-server") from None
    async with client:
        return await work(client)


def complete_topic(ctx: Any, incomplete: str) -> list[str]:
    """Names of topics that begin with what is typed, for the shell's Tab: nothing if the broker does not answer."""
    import asyncio

    try:
        return asyncio.run(_topics(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP, incomplete))
    except Exception:  # whatever it is, a traceback in the middle of a command line helps nobody
        return []


async def _topics(bootstrap: str, beginning: str) -> list[str]:
    import asyncio

    from barnabas.client.cluster import Client

    async with asyncio.timeout(COMPLETION_TIMEOUT), Client(bootstrap, security=command_security()) as client:
        topics = await client.all_topics()
    return sorted(name for name in topics if name.startswith(beginning))
