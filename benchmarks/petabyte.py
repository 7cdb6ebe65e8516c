"""Arithmetic for a petabyte in an object store, from the constants of the code: the table in docs/scale.md.

python -m benchmarks.petabyte

Nothing is measured. `tests/benchmarks/test_petabyte.py` compares the page with the computed table.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import msgspec

from barnabas.config.definitions import BROKER, TOPIC
from barnabas.tiering.objects.layout import SegmentName
from barnabas.tiering.objects.manifest import SegmentEntry
from barnabas.tiering.objects.manifest_changes import MAX_ENTRIES, PAGE_ENTRIES
from barnabas.tiering.objects.segment_object import CHUNK_BYTES
from barnabas.tiering.stores.obstore_store import PART_BYTES

PETABYTE = 10**15
RATE = 100_000_000  # bytes per second into the cluster
LIST_KEYS = 1_000  # keys per LIST response (S3 and Google; Azure has 5,000)
# Requests per upload in addition to its parts: create and complete, read the footer, replace the manifest.
BEGIN_AND_END, CHECK, LISTED = 2, 1, 1
FOOTER = 1  # GETs of a reader per segment
RESTORE = 4  # requests per partition: LIST, manifest, last footer, CAS
PARTITIONS = (100, 1_000, 10_000)


@dataclass(frozen=True)
class Petabyte:
    partitions: int

    @property
    def segment(self) -> int:
        """Size in bytes: full, or rolled after an hour."""
        hourly = RATE // self.partitions * number("barnabas.remote.roll.ms") // 1000
        return min(number("segment.bytes"), hourly)

    @property
    def entries(self) -> int:
        return self.partitions * self.entries_of_partition

    @property
    def entries_of_partition(self) -> int:
        return ceil(PETABYTE / self.partitions / self.segment)

    @property
    def pages_of_partition(self) -> int:
        """Pages: above the maximum number of entries, the oldest thousand become a page."""
        return ceil(max(0, self.entries_of_partition - MAX_ENTRIES) / PAGE_ENTRIES)

    @property
    def manifest_bytes(self) -> int:
        """Maximum size."""
        return min(self.entries_of_partition, MAX_ENTRIES) * entry_bytes()

    @property
    def manifests_written(self) -> int:
        """Total bytes: the whole manifest is written with each segment. It has half of its entries on average until
        there are pages, and three quarters after that."""
        while_growing = min(self.entries_of_partition, MAX_ENTRIES)
        behind = self.entries_of_partition - while_growing
        mean_behind = MAX_ENTRIES - PAGE_ENTRIES / 2
        return int(self.partitions * entry_bytes() * (while_growing**2 / 2 + behind * mean_behind))

    @property
    def copy_writes(self) -> int:
        """PUT and POST requests, the most expensive ones."""
        parts = ceil(self.segment / PART_BYTES)
        return self.entries * (parts + BEGIN_AND_END + LISTED) + self.partitions * self.pages_of_partition

    @property
    def copy_reads(self) -> int:
        return self.entries * CHECK

    @property
    def read_all(self) -> int:
        """GET requests, shared by all consumers that read before the cache evicts the data."""
        return self.entries * (ceil(self.segment / CHUNK_BYTES) + FOOTER)

    @property
    def daily_lists(self) -> int:
        return self.partitions * ceil((self.entries_of_partition + self.pages_of_partition + 1) / LIST_KEYS)

    @property
    def memory(self) -> int:
        """Memory for manifest entries on all leaders together, without pages."""
        return self.partitions * min(self.entries_of_partition, MAX_ENTRIES) * entry_memory()

    @property
    def tail(self) -> int:
        """Maximum bytes to copy to new replicas of all partitions: the segments that are not sealed yet."""
        return self.partitions * self.segment

    @property
    def restore(self) -> int:
        return self.partitions * RESTORE


def number(name: str) -> int:
    """Default of an integer setting."""
    return int({**TOPIC, **BROKER}[name].default or 0)


def entry() -> SegmentEntry:
    """Typical entry in the middle of a log with records of 1 KB."""
    base = 5_000_000_000
    name = str(SegmentName(base, 17, "0a1b2c3d"))
    return SegmentEntry(
        base=base,
        end=base + 1_000_000,
        key=name,
        size=1_073_741_000,
        footer=1_079_000_000,
        total=1_079_030_000,
        largest_timestamp=1_790_000_000_000,
        crc=4_000_000_000,
        epochs=((17, base - 1_000_000),),
    )


def entry_bytes() -> int:
    """Size of an entry in a manifest, including the comma."""
    return len(msgspec.json.encode(entry())) + 1


def entry_memory() -> int:
    decoded = msgspec.json.decode(msgspec.json.encode(entry()), type=SegmentEntry)
    fields = [getattr(decoded, name) for name in SegmentEntry.__struct_fields__]
    return sys.getsizeof(decoded) + sum(map(_size, fields))


def _size(value: Any) -> int:
    inside = sum(map(_size, value)) if isinstance(value, tuple) else 0
    return sys.getsizeof(value) + inside


def bytes_text(value: float) -> str:
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def count_text(value: float) -> str:
    if value >= 10**6:
        return f"{value / 10**6:,.3g} M" if value < 10**9 else f"{value / 10**9:.3g} G"
    return f"{value:,.0f}"


ROWS: tuple[tuple[str, Callable[[Petabyte], float], Callable[[float], str]], ...] = (
    ("segment size: `segment.bytes`, or one hour", lambda it: it.segment, bytes_text),
    ("segments (one object and one manifest entry each)", lambda it: it.entries, count_text),
    ("manifest entries per partition", lambda it: it.entries_of_partition, count_text),
    ("pages of 1,000 entries per partition", lambda it: it.pages_of_partition, count_text),
    ("largest manifest of a partition", lambda it: it.manifest_bytes, bytes_text),
    ("manifests written, in total", lambda it: it.manifests_written, bytes_text),
    ("write requests to copy it", lambda it: it.copy_writes, count_text),
    ("read requests to copy it", lambda it: it.copy_reads, count_text),
    ("requests to read it once", lambda it: it.read_all, count_text),
    ("LIST requests per day, for the sweep", lambda it: it.daily_lists, count_text),
    ("memory of entries, all leaders together", lambda it: it.memory, bytes_text),
    ("maximum bytes copied to new replicas of everything", lambda it: it.tail, bytes_text),
    ("requests of a restore after the loss of all brokers", lambda it: it.restore, count_text),
)


def table() -> list[str]:
    head = " | ".join(f"{partitions:,} partitions" for partitions in PARTITIONS)
    lines = [f"| a petabyte, at 100 MB/s | {head} |", "|---|" + "---|" * len(PARTITIONS)]
    for title, figure, text in ROWS:
        cells = " | ".join(text(figure(Petabyte(partitions))) for partitions in PARTITIONS)
        lines.append(f"| {title} | {cells} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
