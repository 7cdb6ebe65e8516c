"""What the shell offers when Tab is pressed. It must be quick and silent: a broker that is away offers nothing."""

from __future__ import annotations

from typing import Any

from barnabas.cli.command_config import command_security
from barnabas.cli.options import DEFAULT_BOOTSTRAP

PATIENCE = 1.0


def complete_topic(ctx: Any, incomplete: str) -> list[str]:
    """Names of topics that begin with what is typed."""
    import asyncio

    try:
        return asyncio.run(_topics(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP, incomplete))
    except Exception:  # whatever it is, a traceback in the middle of a command line helps nobody
        return []


async def _topics(bootstrap: str, beginning: str) -> list[str]:
    import asyncio

    from barnabas.client.cluster import Client

    async with asyncio.timeout(PATIENCE), Client(bootstrap, security=command_security()) as client:
        topics = await client.all_topics()
    return sorted(name for name in topics if name.startswith(beginning))
