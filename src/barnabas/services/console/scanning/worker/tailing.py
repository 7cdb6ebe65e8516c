"""A tail: every half second what was appended since, at most so many rows; what is left out is counted.

It never reads more than WINDOW_BYTES of a partition at once: a busy topic costs no more than a quiet one.
"""

from __future__ import annotations

import asyncio

from barnabas.client.cluster import Client
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, OffsetRange, end_offsets
from barnabas.services.console.scanning.messages import Found, TailJob
from barnabas.services.console.scanning.model import Hit
from barnabas.services.console.scanning.worker.reading import Section, fetching
from barnabas.services.console.scanning.worker.searching import Looker, Send
from barnabas.services.console.scanning.worker.showing import Schemas
from barnabas.common.types import TopicPartition

TICK_SECONDS = 0.5
MOST_OFFSETS = 20_000
"""Of a partition in one tick: 40,000 records a second can be searched, more are skipped."""
MOST_BYTES = 8 << 20


class Tail:
    def __init__(
        self, client: Client, job: TailJob, schemas: Schemas | None, send: Send, number: int
    ) -> None:
        self._client, self._search = client, job.search
        self._send, self._number = send, number
        self._most = max(1, int(job.rows_per_second * TICK_SECONDS))
        self._looker = Looker(job.search, schemas)
        self._ends = {TopicPartition(job.search.topic, index): end for index, end in job.ends.items()}
        self._skipped = 0

    async def run(self) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            await self._tick()
            await asyncio.sleep(max(0.0, began + TICK_SECONDS - asyncio.get_running_loop().time()))

    async def _tick(self) -> None:
        isolation = READ_COMMITTED if self._search.committed else READ_UNCOMMITTED
        ends = await end_offsets(self._client, self._ends, isolation)
        ranges = []
        for place, end in ends.items():
            first = max(self._ends[place], end - MOST_OFFSETS)
            self._skipped += max(0, first - self._ends[place])
            if first < end:
                ranges.append(OffsetRange(place, first, end))
        self._ends.update({place: max(end, self._ends[place]) for place, end in ends.items()})
        records, size, hits = await self._read(ranges) if ranges else (0, 0, [])
        positions = {place.partition: end for place, end in self._ends.items()}
        answer = Found(self._number, hits, positions, {}, records, size, skipped=self._skipped)
        self._skipped = 0
        await self._send(answer)

    async def _read(self, ranges: list[OffsetRange]) -> tuple[int, int, list[Hit]]:
        """(records, bytes, hits); what lies behind MOST_BYTES is skipped."""
        records, size, hits = 0, 0, list[Hit]()
        left = {part.place: part.size for part in ranges}
        async with fetching(self._client, ranges, self._search.committed, lambda what: None) as fetcher:
            while not fetcher.is_done and size < MOST_BYTES:
                for found in await fetcher.next():
                    section = Section(*found)
                    size += section.bytes
                    left[section.place] = max(0, found.until - found.planned.next_offset)
                    for part in section.parts():
                        looked = await self._looker.look(part, section.place.partition, self._most)
                        records += looked.records
                        hits = self._newest([*hits, *looked.hits])
                        self._skipped += looked.matched - len(looked.hits)
            self._skipped += 0 if fetcher.is_done else sum(left.values())
        return records, size, hits

    def _newest(self, hits: list[Hit]) -> list[Hit]:
        self._skipped += max(0, len(hits) - self._most)
        return sorted(hits, key=lambda hit: hit.timestamp)[-self._most :]
