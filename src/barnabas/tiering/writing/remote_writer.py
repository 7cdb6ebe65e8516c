"""Writer of one led partition: claims and sweeps, then copies and expires segments until another broker leads.

One sequential task, so at most one change of the manifest is in progress. Produce and local reads continue regardless
of the store; segments that cannot be copied stay on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, Protocol

from barnabas.common.clock import Clock
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.metrics import TopicCounters
from barnabas.tiering.objects.layout import PartitionFolder
from barnabas.tiering.objects.manifest import Manifest, ManifestWriter
from barnabas.tiering.objects.manifest_changes import ImpossibleChangeError
from barnabas.tiering.objects.manifest_file import FencedError, ManifestFile, ReplacedError
from barnabas.tiering.objects.segment_build import InThread
from barnabas.tiering.stores.store import ObjectStore, StoreError
from barnabas.tiering.writing.claim import Claim, LogView, claim_manifest
from barnabas.tiering.writing.compacted_copier import CompactedLog, CompactedLogCopier
from barnabas.tiering.writing.copier import LocalSegments, SegmentCopier
from barnabas.tiering.writing.expiration import expire, is_full_sweep_due, sweep, sweep_all
from barnabas.tiering.writing.pacing import At, StoreBackoff, UploadLimiter, nowhere
from barnabas.tiering.writing.uploading import UploadProgress

POLL_SECONDS = 600.0
"""Interval for reading the claimed manifest again: a snapshot or repair may have changed it."""
MAX_WAIT_OFFLINE = 10.0
"""Seconds between two attempts to claim while clients wait for the claim."""

logger = rate_limited_logger(__name__)


class SourceLog(LocalSegments, Protocol):
    """Log of a partition that this broker leads."""

    @property
    def is_offline(self) -> bool:
        """True while the log waits for the claim and does not serve clients."""
        ...

    def view(self) -> LogView: ...

    async def follow_claim(self, claim: Claim) -> None:
        """Apply the manifest's log start, restart at the tiered end if the claim requires it, and start serving
        clients."""
        ...

    def note_log_start(self, offset: int) -> None:
        """Raise the log start to that of the store, up to the high watermark."""
        ...


class WriterSettings(NamedTuple):
    """Current settings of the topic and the broker."""

    copies: bool = True  # not remote.log.copy.disable
    delete_delay_ms: int = 3_600_000  # barnabas.remote.delete.delay.ms
    interval_seconds: float = 30.0  # remote.log.manager.task.interval.ms


class WriterState(StrEnum):
    CLAIMING = "claiming"
    WORKING = "working"
    WAITING = "waiting"  # nothing to do
    PAUSED = "paused"  # after an error
    FENCED = "fenced"  # another broker leads, or the topic is deleted


class RemoteWriter:
    """Writer task of one partition: `run`; cancel it to stop."""

    def __init__(
        self,
        store: ObjectStore,
        folder: PartitionFolder,
        writer: ManifestWriter,
        log: SourceLog,
        settings: Callable[[], WriterSettings],
        pacer: UploadLimiter,
        in_thread: InThread,
        clock: Clock,
        at: At = nowhere,
        counters: TopicCounters | None = None,
        compacted_log: CompactedLog | None = None,
    ) -> None:
        """`compacted_log`: the same log, if it is compacted and therefore copied as a whole."""
        self._whole = compacted_log
        self._counters = counters or TopicCounters()
        self._store = store
        self._folder = folder
        self._writer = writer
        self._log = log
        self._settings = settings
        self._pacer = pacer
        self._in_thread = in_thread
        self._clock = clock
        self._at = at
        self._backoff = StoreBackoff()
        self._news = asyncio.Event()
        self._file: ManifestFile | None = None
        self._copier: SegmentCopier | CompactedLogCopier | None = None
        self._last_read = 0.0
        self.state = WriterState.CLAIMING
        self.error: str | None = None
        """Reason for a pause or for the end."""
        self.error_since_ms = -1
        self.copied_segments = 0
        self.copied_bytes = 0

    @property
    def manifest(self) -> Manifest | None:
        """Latest known manifest; None until it is claimed."""
        return self._file.manifest if self._file else None

    @property
    def uploading(self) -> UploadProgress | None:
        return self._copier.in_progress if self._copier is not None else None

    def pending_sizes(self) -> list[int] | None:
        """Sizes of the uncopied segments of a compacted log; None for other logs, which compute it themselves."""
        copier = self._copier
        return copier.pending_sizes() if isinstance(copier, CompactedLogCopier) else None

    def wake(self) -> None:
        """Wake the task after a segment was sealed, the log start was raised or a setting was changed."""
        self._news.set()

    async def run(self) -> None:
        """Run until another writer claims the manifest."""
        try:
            while True:
                await self._run_until_replaced()
        except FencedError as fenced:
            self._note_error(WriterState.FENCED, fenced)
            logger.info("%s", fenced)

    async def _run_until_replaced(self) -> None:
        try:
            await self._insist(self._begin)
            while True:
                await self._insist(self._round)
                await self._wait()
        except ReplacedError as replaced:
            logger.warning("%s: claimed again", replaced)
            self._file = self._copier = None
            self.state = WriterState.CLAIMING

    async def _insist(self, action: Callable[[], Awaitable[None]]) -> None:
        """Repeat the action until it succeeds, with exponential backoff."""
        while True:
            try:
                await action()
            except FencedError:
                raise
            except (KafkaError, OSError, ImpossibleChangeError) as error:
                self._note_error(WriterState.PAUSED, error)
                seconds = self._backoff.after(error)
                if self._log.is_offline:
                    seconds = min(seconds, MAX_WAIT_OFFLINE)
                logger.warning("%s: %s; again in %g s", self._folder.prefix, error, seconds)
                await asyncio.sleep(seconds)
            else:
                self._note_success()
                return

    def _note_error(self, state: WriterState, error: Exception) -> None:
        if self.error is None:
            self.error_since_ms = self._clock.now_ms()
        self.state, self.error = state, str(error)

    def _note_success(self) -> None:
        self.error, self.error_since_ms = None, -1
        self._backoff.reset()

    async def _begin(self) -> None:
        if self._file is None:
            now_ms = self._clock.now_ms()
            view = self._log.view()
            claim = await claim_manifest(
                self._store, self._folder, self._writer, view, now_ms, compacted=self._whole is not None
            )
            await self._log.follow_claim(claim)
            self._file = claim.file
            self._copier = self._copier_of(claim.file, max(view.end, claim.file.manifest.tiered_end))
        self._follow_manifest()
        await sweep(self._store, self._file, everywhere=self._whole is not None)
        self._last_read = self._clock.monotonic()

    def _copier_of(self, file: ManifestFile, log_end: int) -> SegmentCopier | CompactedLogCopier:
        if self._whole is None:
            return SegmentCopier(self._store, file, self._log, self._pacer, self._in_thread, at=self._at)
        return CompactedLogCopier(
            self._store,
            file,
            self._whole,
            self._pacer,
            self._in_thread,
            self._clock.now_ms,
            log_end,
            at=self._at,
        )

    async def _round(self) -> None:
        self.state = WriterState.WORKING
        self._news.clear()
        await self._poll()
        self._follow_manifest()
        await self._expire()
        while self._settings().copies and await self._copy():
            await self._expire()
        now_ms = self._clock.expiry_ms()
        if self._file is not None and is_full_sweep_due(self._file.manifest, now_ms):
            await sweep_all(self._store, self._file, now_ms)

    async def _poll(self) -> None:
        now = self._clock.monotonic()
        if self._file is not None and now - self._last_read >= POLL_SECONDS:
            await self._file.look()
            self._last_read = now

    def _follow_manifest(self) -> None:
        """Pass the manifest's offsets to the log. Repeated in each round: a new leader's high watermark may limit
        them."""
        if self._file is not None and self._copier is not None:
            self._log.note_log_start(self._file.manifest.log_start)
            self._copier.note_tiered_end()

    async def _copy(self) -> bool:
        try:
            entry = await self._copier.copy_next() if self._copier else None
        except StoreError:
            self._counters.failed_remote_copies.value += 1
            raise
        if entry is None:
            return False
        self._counters.remote_copies.value += 1
        self._counters.remote_bytes_in.value += entry.size
        self.copied_segments += 1
        self.copied_bytes += entry.total
        self._note_success()
        return True

    async def _expire(self) -> None:
        """Delete expired segments. Runs before copying, so that expired segments are not copied."""
        if self._file is not None:
            delay = self._settings().delete_delay_ms
            start, now_ms = self._log.view().start, self._clock.expiry_ms()
            try:
                deleted = await expire(self._store, self._file, start, now_ms, delay, self._at)
            except StoreError:
                self._counters.failed_remote_deletes.value += 1
                raise
            self._counters.remote_deletes.value += deleted

    async def _wait(self) -> None:
        self.state = WriterState.WAITING
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings().interval_seconds):
                await self._news.wait()
