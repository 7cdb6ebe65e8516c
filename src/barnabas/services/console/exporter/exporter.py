"""Metrics page of one cluster, rendered on request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from barnabas.services.console.exporter.lines import page_lines
from barnabas.services.console.exporter.watch import ClusterFigures, ClusterWatch

LINES_PER_TURN = 500
"""A large cluster has half a million lines; rendering must not block other pages."""


class Exporter:
    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self._rendering: asyncio.Task[bytes] | None = None

    def lines(self) -> Iterator[str]:
        return page_lines(self._watch.known)

    async def page(self) -> bytes:
        """Page of the whole cluster; concurrent requests share one rendering."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def close(self) -> None:
        if self._rendering is not None:
            self._rendering.cancel()
            with suppress(asyncio.CancelledError):
                await self._rendering

    async def _render(self) -> bytes:
        try:
            return await written(self._watch.known)
        finally:
            self._rendering = None


async def written(known: ClusterFigures) -> bytes:
    lines: list[str] = []
    for number, line in enumerate(page_lines(known)):
        lines.append(line)
        if number % LINES_PER_TURN == LINES_PER_TURN - 1:
            await asyncio.sleep(0)
    return "".join(lines).encode("utf-8", "replace")
