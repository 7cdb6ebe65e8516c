"""Which topics are tiered: asked for all of them at once, and not at every look."""

from __future__ import annotations

import time
from collections.abc import Iterable

from barnabas.client.cluster import Client
from barnabas.client.tiers import find_tiered

KEPT_SECONDS = 60.0
"""A cluster of 9,000 topics takes a second to ask for the settings of each."""


class TieredTopics:
    def __init__(self) -> None:
        self._asked_at = -KEPT_SECONDS
        self._known: dict[str, bool] = {}

    async def among(self, client: Client, names: Iterable[str]) -> list[str]:
        """Those of the names whose topics are tiered. Topics that were not seen before are asked for at once."""
        if time.monotonic() - self._asked_at >= KEPT_SECONDS:
            self._asked_at, self._known = time.monotonic(), {}
        wanted = sorted(names)
        if new := [name for name in wanted if name not in self._known]:
            topics = await client.all_topics()
            there = {name: topics[name] for name in new if name in topics}
            tiered = set(await find_tiered(client, there))
            self._known |= {name: name in tiered for name in new}
        return [name for name in wanted if self._known[name]]
