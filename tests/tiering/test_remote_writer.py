"""The writer of one partition on a manual clock: rate, pauses, and stop."""

import asyncio
import math
from collections.abc import AsyncIterable, Callable, Coroutine
from typing import Any

import pytest

from barnabas.log.tiering.copying import SealedSegment
from barnabas.tiering.objects import segment_build
from barnabas.tiering.objects.manifest import ManifestWriter
from barnabas.tiering.objects.segment_build import at_once
from barnabas.tiering.repair import manifest_object, rebuild, write_rebuilt
from barnabas.tiering.stores.store import StoreDeniedError, StoreError, StoreUnavailableError
from barnabas.tiering.writing.claim import Claim, LogView, claim_manifest
from barnabas.tiering.writing.expiration import FULL_SWEEP_AGE_MS
from barnabas.tiering.writing.pacing import StoreBackoff, UploadLimiter
from barnabas.tiering.writing.remote_writer import RemoteWriter, WriterSettings, WriterState
from simulation.loop import VirtualClock, VirtualLoop
from tests.support.builders.segments import FOLDER, NOW
from tests.support.waiting import async_until
from tests.tiering.memory_store import Fault, MemoryStore
from tests.tiering.partition_world import Replica, Truth, check_readable, manifest_in, unlisted


class LedReplica(Replica):
    async def follow_claim(self, claim: Claim) -> None:
        self.truth.start = max(self.truth.start, claim.log_start)

    def note_log_start(self, offset: int) -> None:
        self.truth.start = max(self.truth.start, offset)


class NewLeader(LedReplica):
    """It does not know the committed offset yet: later records count neither as copied nor as expired."""

    high_watermark = 0

    async def next_sealed(self, start: int) -> SealedSegment | None:
        return await super().next_sealed(start) if self.tiered_end == start else None

    def note_tiered_end(self, offset: int) -> None:
        super().note_tiered_end(min(offset, self.high_watermark))

    def note_log_start(self, offset: int) -> None:
        super().note_log_start(min(offset, self.high_watermark))


class World:
    def __init__(self, store: MemoryStore | None = None, rate: float = 1e12, **settings: Any) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.store = store or MemoryStore()
        self.settings = WriterSettings(**{"delete_delay_ms": 0, **settings})
        self.log = LedReplica(Truth(), 5)
        pacer = UploadLimiter(self.clock.monotonic, rate)
        self.writer = RemoteWriter(
            self.store,
            FOLDER,
            ManifestWriter(0, 1, "one"),
            self.log,
            lambda: self.settings,
            pacer,
            at_once,
            self.clock,
        )

    def run(self, scenario: Callable[[asyncio.Task[None]], Coroutine[Any, Any, None]]) -> None:
        async def both() -> None:
            task = asyncio.ensure_future(self.writer.run())
            try:
                await scenario(task)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        try:
            self.loop.run_until_complete(both())
        finally:
            self.loop.close()

    async def when(self, condition: Callable[[], object]) -> float:
        """Virtual time at which the condition becomes true."""
        await async_until(condition, seconds=math.inf)
        return self.loop.now


def test_a_clock_that_jumps_ahead_begins_no_full_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(23, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        swept_ms = manifest_in(world.store).swept_ms
        assert swept_ms > 0
        real = world.clock.now_ms
        monkeypatch.setattr(world.clock, "expiry_ms", real)
        monkeypatch.setattr(world.clock, "now_ms", lambda: real() + 30 * FULL_SWEEP_AGE_MS)
        world.log.truth.append(10, 1)
        world.writer.wake()
        await world.when(lambda: manifest_in(world.store).tiered_end == 30)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        assert manifest_in(world.store).swept_ms == swept_ms

    world.run(scenario)


def test_sealed_segments_are_copied_and_expired_ones_deleted() -> None:
    world = World()

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(23, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        assert manifest_in(world.store).tiered_end == 20
        assert world.log.local_start == 20
        assert (world.writer.copied_segments, world.writer.error) == (4, None)
        world.log.truth.append(10, 1)
        world.log.truth.start = 12
        world.writer.wake()
        assert await world.when(lambda: manifest_in(world.store).tiered_end == 30) < 1
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        assert len([key for key in world.store.keys if key.endswith(".segment")]) == 4
        await check_readable(world.store, world.log)
        world.log.truth.append(10, 1)  # otherwise it polls every 30 s
        assert await world.when(lambda: manifest_in(world.store).tiered_end == 40) == pytest.approx(30, abs=1)

    world.run(scenario)


def test_a_leader_whose_high_watermark_was_below_the_tiered_end_copies_on_when_it_has_risen() -> None:
    world = World()

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(20, 1)
        await world.when(lambda: world.writer.copied_segments == 4)
        world.log.truth.append(10, 2)
        second = World(world.store)
        second.log = NewLeader(world.log.truth, 5)
        follower = RemoteWriter(
            world.store,
            FOLDER,
            ManifestWriter(0, 2, "two"),
            second.log,
            lambda: second.settings,
            UploadLimiter(world.clock.monotonic, 1e12),
            at_once,
            world.clock,
        )
        leading = asyncio.ensure_future(follower.run())
        await world.when(lambda: follower.state is WriterState.WAITING)
        assert manifest_in(world.store).tiered_end == 20
        second.log.high_watermark = 30
        follower.wake()
        await world.when(lambda: manifest_in(world.store).tiered_end == 30)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        second.loop.close()

    world.run(scenario)


class Counting(MemoryStore):
    """Knows how many uploads ran at once."""

    running = most = 0

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(1)
        await super().upload(key, pieces)
        self.running -= 1


def test_only_so_many_segments_are_copied_at_once() -> None:
    """Each upload has parts of 16 MiB in memory: a thousand partitions must not copy at the same time."""
    store = Counting()
    world = World(store)
    pacer = UploadLimiter(world.clock.monotonic, 1e12, max_uploads=2)

    def writer_of(partition: int) -> RemoteWriter:
        log = LedReplica(Truth(), 5)
        log.truth.append(10, 1)
        folder = FOLDER._replace(partition=partition)
        settings = world.settings
        writer = ManifestWriter(0, 1, "one")
        return RemoteWriter(store, folder, writer, log, lambda: settings, pacer, at_once, world.clock)

    async def scenario(task: asyncio.Task[None]) -> None:
        writers = [writer_of(partition) for partition in range(1, 8)]
        tasks = [asyncio.ensure_future(writer.run()) for writer in writers]
        await world.when(lambda: all(writer.copied_segments == 2 for writer in writers))
        assert store.most == 2
        pacer.allow(1e12, 5)
        assert pacer.uploads._value == 5
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    world.run(scenario)


def test_a_writer_that_must_not_copy_still_expires() -> None:
    world = World(copies=False)

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(23, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        assert manifest_in(world.store).tiered_end == 0
        world.log.truth.start = 9
        world.writer.wake()
        await world.when(lambda: manifest_in(world.store).log_start == 9)

    world.run(scenario)


class Refusing(MemoryStore):
    """Rejects uploads until it is released, and records the time."""

    def __init__(self, error: type[StoreError] | None) -> None:
        super().__init__()
        self.error = error
        self.refused: list[float] = []

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        if self.error is not None:
            self.refused.append(asyncio.get_running_loop().time())
            raise self.error(f"{key}: no")
        await super().upload(key, pieces)


@pytest.mark.parametrize(("error", "first"), [(StoreDeniedError, 15), (StoreUnavailableError, 1)])
def test_pauses_double_up_to_five_minutes_and_end_when_the_store_takes_more(
    error: type[StoreError] | None, first: int
) -> None:
    store = Refusing(error)
    world = World(store)

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(10, 1)
        await world.when(lambda: len(store.refused) == 12)
        pauses = [later - earlier for earlier, later in zip(store.refused, store.refused[1:], strict=False)]
        wanted = [min(first * 2**number, 300) for number in range(11)]
        assert pauses == pytest.approx(wanted)
        assert world.writer.state is WriterState.PAUSED
        assert "no" in (world.writer.error or "")
        store.error = None
        await world.when(lambda: manifest_in(store).tiered_end == 10)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        assert world.writer.error is None
        assert unlisted(store) == set()

    world.run(scenario)


class Hanging(MemoryStore):
    """Takes the first piece of the first upload, and nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[str] = []
        self.cancelled_at: float | None = None

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        self.uploads.append(key)
        if len(self.uploads) == 1:
            await anext(aiter(pieces))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.cancelled_at = asyncio.get_running_loop().time()
        await super().upload(key, pieces)


def test_an_upload_that_hangs_is_cancelled_after_a_minute_and_repeated_under_the_same_name() -> None:
    store = Hanging()
    world = World(store)

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(5, 1)
        await world.when(lambda: store.keys and manifest_in(store).tiered_end == 5)
        assert store.cancelled_at == pytest.approx(60, abs=1)
        assert len(store.uploads) == 2
        assert len(set(store.uploads)) == 1

    world.run(scenario)


def test_copying_keeps_its_pace_and_a_slow_pace_is_no_hanging_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_build, "PIECE_BYTES", 100)
    world = World(rate=1.0)  # 100 s for a piece

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(10, 1)
        at = await world.when(lambda: world.writer.copied_segments == 2)
        assert world.writer.copied_bytes > 1000
        assert at == pytest.approx(world.writer.copied_bytes, abs=200)
        assert world.writer.error is None

    world.run(scenario)


def test_a_writer_whose_manifest_another_claims_stops() -> None:
    world = World()

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(10, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        view = LogView(0, 0, 100, ((1, 0),))
        await claim_manifest(world.store, FOLDER, ManifestWriter(0, 2, "two"), view, NOW)
        world.log.truth.append(10, 1)
        world.writer.wake()
        await task
        assert world.writer.state is WriterState.FENCED
        assert "two" in (world.writer.error or "")
        assert unlisted(world.store) == set()

    world.run(scenario)


def test_a_damaged_manifest_is_tried_again_and_not_overwritten() -> None:
    world = World()
    world.store.set_contents(FOLDER.manifest, b"garbage")

    async def scenario(task: asyncio.Task[None]) -> None:
        await world.when(lambda: world.writer.state is WriterState.PAUSED)
        assert "tier repair" in (world.writer.error or "")
        assert world.writer.manifest is None
        await asyncio.sleep(3000)
        assert world.store.keys == [FOLDER.manifest]
        assert world.store.contents(FOLDER.manifest) == b"garbage"
        world.store.remove(FOLDER.manifest)
        await world.when(lambda: world.writer.manifest is not None)

    world.run(scenario)


def test_once_a_day_everything_is_listed() -> None:
    world = World(interval_seconds=600)

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(20, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        left_by_a_zombie = FOLDER.key("00000000000000000003-0000000000-0000abcd.segment")
        world.store.set_contents(left_by_a_zombie, b"x")
        await asyncio.sleep(FULL_SWEEP_AGE_MS / 1000 - 1200)
        assert left_by_a_zombie in world.store.keys
        await asyncio.sleep(3000)
        assert left_by_a_zombie not in world.store.keys
        await check_readable(world.store, world.log)

    world.run(scenario)


def test_everything_is_listed_once_a_day_though_leaders_come_and_go() -> None:
    first = World()
    left_by_a_zombie = FOLDER.key("00000000000000000003-0000000000-0000abcd.segment")

    async def lead_for_a_while(task: asyncio.Task[None]) -> None:
        first.log.truth.append(20, 1)
        await first.when(lambda: first.writer.state is WriterState.WAITING)

    first.run(lead_for_a_while)
    for epoch in (2, 3, 4):
        world = World(first.store)
        world.writer._writer = ManifestWriter(0, epoch, f"leader {epoch}")
        now_ms = NOW + FULL_SWEEP_AGE_MS // 2 * (epoch - 2)
        world.clock.now_ms = lambda now_ms=now_ms: now_ms  # type: ignore[misc, method-assign]
        world.writer._log = first.log

        async def lead(task: asyncio.Task[None], world: World = world) -> None:
            await world.when(lambda: world.writer.state is WriterState.WAITING)

        world.run(lead)
        if epoch == 2:  # below its mark
            first.store.set_contents(left_by_a_zombie, b"x")
        assert (left_by_a_zombie in first.store.keys) == (epoch < 4)


@pytest.mark.parametrize("is_busy", [True, False])
def test_leader_whose_manifest_was_recreated_claims_it_automatically(is_busy: bool) -> None:
    world = World()

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(20, 1)
        await world.when(lambda: world.writer.state is WriterState.WAITING)
        damaged = await manifest_object(world.store, FOLDER)
        rebuilt = await rebuild(world.store, FOLDER, 0, NOW)
        await write_rebuilt(world.store, FOLDER, rebuilt.manifest, NOW, damaged)
        if is_busy:
            world.log.truth.append(10, 1)
        await world.when(lambda: manifest_in(world.store).writer == "one")
        assert world.loop.now < 700
        if is_busy:
            await world.when(lambda: manifest_in(world.store).tiered_end == 30)
        assert world.writer.state is not WriterState.FENCED
        assert unlisted(world.store) == set()
        await check_readable(world.store, world.log)

    world.run(scenario)


def test_while_clients_wait_for_the_claim_it_is_tried_every_ten_seconds() -> None:
    world = World()
    world.log.is_offline = True
    world.store.decide = lambda number, call, key: Fault.BEFORE

    async def scenario(task: asyncio.Task[None]) -> None:
        await asyncio.sleep(300)
        world.store.heal()
        healed = world.loop.now
        await world.when(lambda: world.writer.manifest is not None)
        assert world.loop.now - healed <= 10.1

    world.run(scenario)


def test_a_success_makes_the_next_pause_short_again() -> None:
    backoff = StoreBackoff()
    error = StoreUnavailableError("x")
    assert [backoff.after(error) for _ in range(3)] == [1, 2, 4]
    backoff.reset()
    assert backoff.after(error) == 1
    assert backoff.after(StoreDeniedError("x")) == 15


class Cutting(MemoryStore):
    """Reports the first upload as written after writing half of it."""

    async def upload(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        await super().upload(key, pieces)
        if self.requests["upload"] == 0:
            self.requests["upload"] += 1
            self.set_contents(key, self.contents(key)[:-100])


def test_an_object_that_the_store_has_cut_is_written_again_before_it_is_listed() -> None:
    store = Cutting()
    world = World(store)

    async def scenario(task: asyncio.Task[None]) -> None:
        world.log.truth.append(10, 1)
        await world.when(lambda: world.log.tiered_end == 10)
        await check_readable(store, world.log)
        assert [call for call, _ in store.calls].count("upload") == 3
        assert unlisted(store) == set()

    world.run(scenario)
