"""What monitoring sees of compaction."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.log.compaction.candidates import Candidate, CompactionResult
from barnabas.log.log import Log
from barnabas.metrics import catalogue
from barnabas.metrics.registry import Registry, Sample

if TYPE_CHECKING:
    from barnabas.broker.log_cleaner import LogCleaner


class LogCleanerMetrics:
    def __init__(self, registry: Registry, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner
        self.max_dirty_ratio = 0.0
        self.last: CompactionResult | None = None
        self._rounds = registry.counter(catalogue.COMPACTIONS).labels()
        self._read_bytes = registry.counter(catalogue.COMPACTION_READ).labels()
        self._removed_bytes = registry.counter(catalogue.COMPACTION_REMOVED).labels()
        registry.read_by(catalogue.MAX_DIRTY_PERCENT, lambda: int(100 * self.max_dirty_ratio))
        registry.read_by(catalogue.CLEAN_SECONDS, lambda: self.last.seconds if self.last else 0)
        registry.read_by(catalogue.CLEAN_RECOPY, self._recopied_percent)
        registry.read_by(catalogue.CLEAN_MEMORY, lambda: 100 * self.last.memory_used if self.last else 0)
        registry.computed(catalogue.UNCLEANABLE_PARTITIONS, self._by_folder(lambda log: 1))
        registry.computed(catalogue.UNCLEANABLE_BYTES, self._by_folder(lambda log: log.size_bytes))

    def looked(self, found: Iterable[Candidate]) -> None:
        self.max_dirty_ratio = max((candidate.dirty_ratio for candidate in found), default=0.0)

    def compacted(self, result: CompactionResult) -> None:
        self.last = result
        self._rounds.value += 1
        self._read_bytes.value += result.bytes_read
        self._removed_bytes.value += result.bytes_read - result.bytes_kept

    def _recopied_percent(self) -> float:
        last = self.last
        return 100 * last.bytes_kept / last.bytes_read if last and last.bytes_read else 0

    def _by_folder(self, count: Callable[[Log], int]) -> Callable[[], Iterator[Sample]]:
        def samples() -> Iterator[Sample]:
            totals: Counter[str] = Counter()
            for log in self._cleaner.uncleanable:
                totals[os.path.dirname(log.folder)] += count(log)
            for folder, total in sorted(totals.items()):
                yield Sample("", (("logdirectory", folder),), total)

        return samples
