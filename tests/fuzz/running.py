"""The long run: thousands of frames, cost checks after every few, and a closer inspection of expensive ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TypeVar

from barnabas.handlers.table import HANDLERS
from barnabas.protocol.api import APIS
from barnabas.protocol.schema import Message
from tests.fuzz import corpus as corpus_files
from tests.fuzz.batches import Batches
from tests.fuzz.broken_tls import Vandal
from tests.fuzz.damaging import damaged
from tests.fuzz.driving import Cost, Heartbeat, Hung, Talk, Target
from tests.fuzz.findings import Findings
from tests.fuzz.generating import Generator
from tests.fuzz.judging import (
    TRIES,
    Failure,
    alone,
    api_of,
    confirmed,
    correlation_id,
    expects_no_answer,
    is_suspect,
    name_of,
    over,
    read_answers,
)
from tests.fuzz.seeds import seeds
from tests.fuzz.stage import prepare, refresh
from tests.fuzz.unauthenticated import TIMEOUT_SECONDS, Unauthenticated, judged
from tests.fuzz.variants import BROKEN_TLS, PLAIN, TURNS, Variant
from tests.fuzz.world import World

T = TypeVar("T")

LOOK_AFTER_FRAMES = 128  # interval of cost queries, in frames
LIFETIME_FRAMES = 20_000  # then the broker begins with an empty folder
REFRESH_FRAMES = 2_000
MAX_SERIES = 12  # frames on one connection
CONNECTIONS = 16  # at once
SUSPENDED_SECONDS = 20.0  # the broker waits 30 s for a first request
MUTATED_SHARE = 0.3
STATEFUL_SHARE = 0.3
SPLICED = 200  # recent frames to cut pieces from
FILES, DISK_BYTES = 60_000, 8 << 30  # at the end of a broker's life
MEMORY_AT_END = 400 << 20
FAMILIES = [
    [row for row in HANDLERS if row.request_class.__name__.removesuffix("Request") in names]
    for names in (
        {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "DescribeGroups"},
        {"ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch", "ConsumerGroupDescribe", "JoinGroup", "OffsetDelete"},
        {"ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "ShareGroupDescribe", "AlterShareGroupOffsets",
         "DeleteShareGroupOffsets", "DescribeShareGroupOffsets"},
        {"StreamsGroupHeartbeat", "StreamsGroupDescribe", "OffsetCommit"},
        {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce",
         "DescribeTransactions", "ListTransactions", "DescribeProducers"},
        {"Fetch", "ListOffsets", "Produce", "DeleteRecords", "OffsetForLeaderEpoch"},
    )
]  # fmt: skip


class Run:
    """Variants alternate in rounds of a batch of frames; the first one gets the corpus."""

    def __init__(
        self,
        seed: int,
        folder: Path | None = None,
        tell: Callable[[str], None] = lambda text: None,
        variants: Sequence[Variant] = (PLAIN,),
        start: Callable[[], Target] = Target,
    ) -> None:
        self.findings = Findings()
        self._source = Random(seed)
        self._world = World()
        self._generator = Generator(self._source, self._world, Batches(self._source, int(time.time() * 1000)))
        self._unauthenticated = Unauthenticated(self._source, self._generator)
        self._vandal = Vandal(self._source, self._new_frame)
        iterations = [variant for variant in variants for _ in range(TURNS[variant])]
        self._source.shuffle(iterations)
        self._names = set(map(str, variants))
        self._turns = cycle(iterations)
        self._variant = variants[0]
        self._folder = folder
        self._start = start
        self._heartbeat = Heartbeat()
        self._print = tell
        self.progress: Callable[[], None] = lambda: None
        self._numbers = 0
        self._recent: list[bytes] = []
        self._unjudged: list[bytes] = []
        self._lived = self._refreshed = self._since_look = 0
        self._target: Target | None = None

    # -- a broker's life ----------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        if self._target is None:
            self._target = self._start()
            self._lived = self._refreshed = 0
            prepare(self._target, self._world)
            self._target.settle()
        self._target.variant = self._variant
        return self._target

    def close(self) -> None:
        if self._target is not None:
            self._target.stop()
            self._target = None

    def end_life(self) -> None:
        """Check leftovers without clients, then start the next broker with empty folders."""
        target = self._target
        if target is None:
            return
        try:
            held = target.pool_in_use()
            if held:
                self._report(
                    Failure("all", "pool", f"{held:,} bytes are held for requests when nobody is connected")
                )
            count, size = target.files()
            self.findings.largest_files = max(self.findings.largest_files, (count, size))
            if count > FILES or size > DISK_BYTES:
                self._report(Failure("all", "files", f"{count:,} files, {size >> 20:,} MB"))
            rss = int(target.settle()["rss"])
            self.findings.largest_rss = max(self.findings.largest_rss, rss)
            if rss > MEMORY_AT_END:
                self._report(Failure("all", "growth", f"{rss >> 20:,} MB after {self._lived:,} frames"))
        except Hung as hung:
            self._report(Failure("all", "hung", str(hung)))
        self.close()

    # -- frames -------------------------------------------------------------------------------------

    def run(self, frames: int, seconds: float = float("inf"), *, replay: bool = True) -> Findings:
        """The corpus first, each frame alone; then random frames, until each variant has had a round."""
        if replay:
            self.replay()
        deadline = time.monotonic() + seconds
        while self.findings.frames < frames and (time.monotonic() < deadline or not self._all_had_turns()):
            self.step()
            self.progress()
        self.judge()
        self.end_life()
        return self.findings

    def _all_had_turns(self) -> bool:
        return set(self.findings.by_variant) == self._names

    def replay(self) -> None:
        """Send the seeds and the corpus, each frame alone."""
        kept = [*seeds(), *corpus_files.load(), *(corpus_files.load(self._folder) if self._folder else ())]
        for _, frame in kept:
            self.try_alone(frame)
        self._recent = [frame for _, frame in kept if len(frame) < 100_000]

    def try_alone(self, frame: bytes) -> list[Failure]:
        found = alone(self.target, frame)
        if found:
            found = self._confirmed(frame, found)
        self.findings.frames += 1
        for failure in found:
            self._report(failure)
        if any(failure.kind == "hung" for failure in found):
            self.close()
        return found

    def _confirmed(self, frame: bytes, first: list[Failure]) -> list[Failure]:
        """A hung broker is killed, and once is enough; other findings must be repeatable."""
        if any(failure.kind == "hung" for failure in first):
            return first
        again = confirmed(self.target, frame, TRIES - 1)
        return [failure for failure in again if failure.kind in {each.kind for each in first}]

    def step(self) -> None:
        """A burst of conversations, or one attack on TLS."""
        if self._variant == BROKEN_TLS:
            self._attack()
        elif self._variant.is_unauthenticated:
            self._converse_as_unauthenticated()
        else:
            scripts = [self._script() for _ in range(CONNECTIONS)]
            while burst := [frames for script in scripts if (frames := next(script, None))]:
                self.converse(burst)
        if self._since_look >= LOOK_AFTER_FRAMES:
            self.judge()
        if self._lived >= LIFETIME_FRAMES:
            self.judge()
            self.end_life()
        elif self._lived - self._refreshed >= REFRESH_FRAMES:
            self._refreshed = self._lived
            self._safely(lambda target: refresh(target, self._world))

    def _new_frame(self, family: int | None = None) -> bytes:
        self._numbers += 1
        handler = None if family is None else self._source.choice(FAMILIES[family])
        frame = self._generator.frame(self._numbers, handler)
        if len(frame) < 20_000:
            self._recent[self._numbers % SPLICED : self._numbers % SPLICED + 1] = [frame]
        return frame

    def _script(self) -> Iterator[list[bytes]]:
        """Frames sent on a connection before the next responses are read."""
        how = self._source.random()
        if how < MUTATED_SHARE:
            yield [damaged(self._new_frame(), self._recent, self._source)]
        elif how < MUTATED_SHARE + STATEFUL_SHARE:
            # Frames use earlier responses: joined members can sync, sessions continue.
            family = self._source.randrange(len(FAMILIES))
            for _ in range(self._source.randint(2, MAX_SERIES)):
                yield [self._new_frame(family)]
        else:
            yield [self._new_frame() for _ in range(self._source.randint(1, MAX_SERIES))]

    def _attack(self) -> None:
        """Non-TLS bytes. No response is required; recreating resources proves that others are served."""
        thrown: list[bytes] = []
        self._safely(lambda target: thrown.append(self._vandal.attack(target)))
        self._count(thrown, 1)

    def _converse_as_unauthenticated(self) -> None:
        conversations = [self._unauthenticated.conversation() for _ in range(CONNECTIONS)]
        for conversation in conversations:
            self._count([b"".join(conversation.frames)], len(conversation.frames))
        burst = [(each.frames, len(each.frames) + 1 if each.ends else 0) for each in conversations]
        talks = self._safely(lambda target: target.exchange_all(burst, TIMEOUT_SECONDS))
        for conversation, talk in zip(conversations, talks or (), strict=False):
            self._note_talk(talk, len(conversation.frames))
            failure = judged(conversation, talk)
            if failure is not None:
                self._report(failure)

    def converse(self, burst: list[list[bytes]]) -> None:
        """Send frames on as many connections at once."""
        conversations = [(frames, len(frames) - sum(map(expects_no_answer, frames))) for frames in burst]
        for frames in burst:
            self._count(frames, len(frames))
        talks = self._safely(lambda target: target.exchange_all(conversations))
        for talk, (_, expected) in zip(talks or (), conversations, strict=False):
            self._note_talk(talk, expected)
            self._read(talk)

    def _count(self, sent: Sequence[bytes], frames: int) -> None:
        self._unjudged += sent
        self._since_look += frames
        self._lived += frames
        self.findings.frames += frames
        self.findings.by_variant[str(self._variant)] += frames

    def _note_talk(self, talk: Talk, expected: int) -> None:
        self.findings.answers += len(talk.answers)
        self.findings.closed += talk.closed
        self.findings.unanswered += expected - len(talk.answers)

    def _read(self, talk: Talk) -> None:
        for _, answer in read_answers(talk.frames, talk.answers):
            if isinstance(answer, Message):
                self._world.learn(answer)
            elif (
                len(talk.frames) > 1 or answer.api != "unknown API"
            ):  # a damaged frame may have lost its number
                self._report(answer)

    def _safely(self, work: Callable[[Target], T]) -> T | None:
        """Do something with the broker; one that hangs is judged and replaced."""
        try:
            return work(self.target)
        except Hung as hung:
            self.find_who_hangs(hung)
            return None

    # -- judging ------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Query the cost of the last frames, and investigate if it is too high."""
        if not self._unjudged:
            return
        try:
            cost = self.target.cost()
        except Hung as hung:
            self.find_who_hangs(hung)
            return
        self._heartbeat.longest_gap()
        self._note(cost)
        if is_suspect(cost, max(map(len, self._unjudged))):
            self._look_closer(cost)
            if self._target is not None:
                self._target.settle()
        elif cost.peak > 16 << 20:
            self.target.settle()
        self._unjudged.clear()
        self._since_look = 0
        self._variant = next(self._turns)

    def _note(self, cost: Cost) -> None:
        slowest = self.findings.slowest
        for key, seconds in cost.by_api.items():
            name = APIS[int(key)].name if int(key) in APIS else f"API {key}"
            slowest[name] = max(slowest.get(name, 0.0), seconds)
        self.findings.largest_peak = max(self.findings.largest_peak, cost.peak)

    def _look_closer(self, cost: Cost) -> None:
        """Find the expensive frame: each alone, those reported by the broker first, then the largest."""
        named = {cost.culprit, *(number for number, _ in cost.complaints)}
        culprit = next((frame for frame in self._unjudged if correlation_id(frame) == cost.culprit), None)
        if culprit is not None and self._is_old(over(cost, culprit)):
            return
        suspects = sorted(self._unjudged, key=lambda frame: (correlation_id(frame) not in named, -len(frame)))
        for frame in suspects:
            found = over(self._cost_alone(frame), frame)
            if found and (self._is_old(found) or self.try_alone(frame)):
                return
            if self._target is None:
                return
        self.findings.noise["; ".join(failure.kind for failure in over(cost, b""))] += 1
        for number, text in cost.complaints:  # it takes more than one frame, and a traceback is never right
            latest = next((frame for frame in suspects if correlation_id(frame) == number), b"")
            self._report(Failure(name_of(latest), "log", text, latest))

    def _is_old(self, found: list[Failure]) -> bool:
        """Everything that this frame does has been reported."""
        if found and all(failure.key in self.findings.failures for failure in found):
            self.findings.times.update(failure.key for failure in found)
            return True
        return False

    def _cost_alone(self, frame: bytes) -> Cost:
        try:
            self.target.settle()
            self.target.exchange([frame], quiet=0.02)
            return self.target.cost()
        except Hung:
            return Cost(float("inf"), None, 0, 0, 0, [], {})

    def find_who_hangs(self, hung: Hung) -> None:
        """Try each of the last frames on a new broker until one hangs again. Does nothing after a suspension."""
        suspects, self._unjudged = self._unjudged, []
        self._since_look = 0
        self.close()
        if self._heartbeat.longest_gap() > SUSPENDED_SECONDS:
            self.findings.noise["hung after a suspension"] += 1
            return
        for frame in reversed(suspects):
            found = [failure for failure in alone(self.target, frame) if failure.kind == "hung"]
            if found:
                self._report(found[0])
                self.close()
                return
        self._report(Failure("several", "hung", str(hung), b"".join(suspects[-3:])))

    def _report(self, failure: Failure) -> None:
        failure = replace(failure, told=f"{failure.told} ({self._variant})")
        if not self.findings.add(failure):
            return
        self._print(f"FAILURE: {failure}")
        if self._folder is not None and failure.frame:
            self._keep(failure)

    def _keep(self, failure: Failure) -> None:
        frame = failure.frame
        if (
            failure.kind in ("loop", "memory", "log", "flood")
            and api_of(frame) is not None
            and self._target is not None
        ):
            frame = corpus_files.minimised(
                frame,
                lambda smaller: failure.kind in {each.kind for each in confirmed(self.target, smaller, 2)},
            )
        assert self._folder is not None
        path = corpus_files.keep(self._folder, Failure(failure.api, failure.kind, failure.told, frame))
        self._print(f"  kept in {path}" if path else f"  too large to be kept: {len(frame):,} bytes")
