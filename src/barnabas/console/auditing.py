"""Where changes are written down: before the act, and completed after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from barnabas.console.context import Context
from barnabas.console.gate import Head
from barnabas.console.routes import Match


class Auditing(Protocol):
    def act(self, head: Head, context: Context, match: Match, form: Any) -> AbstractAsyncContextManager[None]:
        """Around one action. An act that cannot be written down does not happen."""
        ...


class NoAudit:
    @asynccontextmanager
    async def act(self, head: Head, context: Context, match: Match, form: Any) -> AsyncIterator[None]:
        yield
