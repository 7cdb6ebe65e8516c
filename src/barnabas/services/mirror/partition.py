"""One partition of a mirror as a state machine: what a fetch brought becomes what to append, or a reason to stop.

                  fetched, appended          paused               promoting           promoted
    ACTIVE        ACTIVE, or FAILED          PAUSED               PROMOTING           STOPPED
    SOURCE_       ACTIVE                     PAUSED               PROMOTING           STOPPED
     UNAVAILABLE
    PAUSED        - (nothing is fetched)     PAUSED               PROMOTING           STOPPED
    FAILED        - (nothing is fetched)     FAILED               PROMOTING           STOPPED
    PROMOTING     - (leaders refuse)         PROMOTING            PROMOTING           STOPPED

A person brings a partition back from FAILED (`barnabas mirror resume`). Nothing is ever cut off the target because a
source says so, unless that was asked for (`--on-truncation=follow`).

Offsets: `position` is what to fetch next, `log_end` where the target's log ends; between them lie bytes on their way.
(`position`, `last_epoch`) names the last batch, so that a source that has another one there says where they part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.errors import RETRIABLE
from barnabas.client.mirrors.store import LinkStatus
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.records.batch import HEADER_SIZE, MAGIC, MIN_LENGTH, unpack_header

NO_EPOCH = -1
UNKNOWN = -1
LOG_OVERHEAD = 12
DAMAGED_MOST = 3
"""Answers in a row that are no batches, before the partition gives up: one may have been cut on its way."""

GONE = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
"""The source may have deleted the topic: its metadata will say."""

FORBIDDEN = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""A right is missing: docs/mirror.md says which ones a mirror needs."""
_DIVERGED = frozenset(
    {ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.MESSAGE_TOO_LARGE}
)


FETCHING = frozenset({LinkStatus.ACTIVE, LinkStatus.SOURCE_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Following:
    """What a person allows beyond copying."""

    truncation: bool = False
    """Cut the target where the source was cut."""
    gaps: bool = False
    """Go on behind records that the source has deleted before they were mirrored."""


class FetchResult(NamedTuple):
    """What the source answered for one partition."""

    fetch_offset: int
    error: ErrorCode
    records: memoryview
    high_watermark: int
    log_start: int
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset), for those who read committed records only."""
    diverging_end: int = UNKNOWN
    """Where the source's log of the last fetched epoch ends, if it is another log; else -1."""
    diverging_epoch: int = NO_EPOCH
    """And the epoch that ends there: the last one that is not later than the fetched one."""


class Payload(NamedTuple):
    """Whole batches to append, or a cut, or both."""

    tp: TopicPartition
    records: memoryview
    first: int
    next_offset: int
    last_epoch: int
    high_watermark: int
    log_start: int
    arrived: float
    aborted: tuple[tuple[int, int], ...] = ()
    truncate_to: int = UNKNOWN
    expected_end: int = UNKNOWN
    truncate_epoch: int = NO_EPOCH


class TargetPosition(NamedTuple):
    """Where the target stands, and what went wrong; -1: not known."""

    log_end: int
    last_epoch: int
    is_empty: bool
    """Nothing was ever mirrored: the source's log start is the place to begin."""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class SourcePartition:
    """Pure: told what happened, it says what to do."""

    def __init__(
        self,
        tp: TopicPartition,
        *,
        compacted: bool = False,
        following: Following = Following(),  # noqa: B008
    ) -> None:
        self.tp = tp
        self.compacted = compacted
        self.following = following
        self.state = LinkStatus.ACTIVE
        self.reason = ""
        self.position = UNKNOWN
        self.last_epoch = NO_EPOCH
        self.log_end = UNKNOWN
        self.high_watermark = UNKNOWN
        self.log_start = UNKNOWN
        self.caught_up_at = 0.0
        self.damaged = 0

    # -- what the state machine is told ---------------------------------------------------------------------------

    def begin(self, log_end: int, last_epoch: int, now: float) -> None:
        """The target says where its log ends: what was on its way is forgotten."""
        self.log_end = self.position = log_end
        self.last_epoch = last_epoch
        if not self.caught_up_at:
            self.caught_up_at = now

    def fail(self, reason: str) -> None:
        if self.state in FETCHING:
            self.state, self.reason = LinkStatus.FAILED, reason

    def resume(self) -> None:
        """A person says that it may go on; the source must have been put right, or following allowed."""
        if self.state in (LinkStatus.FAILED, LinkStatus.PAUSED, LinkStatus.SOURCE_UNAVAILABLE):
            self.state, self.reason, self.damaged = LinkStatus.ACTIVE, "", 0

    def ordered(self, state: LinkStatus) -> None:
        """PAUSED, PROMOTING or STOPPED in the target's metadata, or ACTIVE again."""
        if state in FETCHING:
            if self.state in (LinkStatus.PAUSED, LinkStatus.PROMOTING, LinkStatus.STOPPED):
                self.state, self.reason = LinkStatus.ACTIVE, ""
        elif state is not LinkStatus.FAILED and not (
            self.state is LinkStatus.FAILED and state is LinkStatus.PAUSED
        ):
            self.state = state

    def unavailable(self, why: str) -> None:
        if self.state in FETCHING:
            self.state, self.reason = LinkStatus.SOURCE_UNAVAILABLE, why

    def appended(self, payload: Payload, log_end: int) -> None:
        """The target has it, on all replicas in sync."""
        self.damaged = 0
        self.log_end = max(self.log_end, log_end) if payload.truncate_to == UNKNOWN else log_end
        if self.log_end >= payload.high_watermark:
            self.caught_up_at = max(self.caught_up_at, payload.arrived)

    def settle(self, payload: Payload, standing: TargetPosition) -> None:
        """What the target answered. What it did not take is fetched again, from where its log ends."""
        code = standing.error
        if not code:
            self.appended(payload, standing.log_end)
            if payload.truncate_to != UNKNOWN or standing.log_end < payload.next_offset:
                self._restart(standing)  # a cut inside a batch takes all of it
        elif code in _DIVERGED or (
            code == ErrorCode.OFFSET_OUT_OF_RANGE and standing.log_end == payload.first
        ):
            self.fail(f"the target refuses what the source has at offset {payload.first}: {standing.message}")
        elif code == ErrorCode.CORRUPT_MESSAGE:
            self._restart(standing)
            self._garbage(f"a batch that is damaged: {standing.message}")
        elif standing.log_end >= 0 and code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._restart(standing)
        else:
            self.position = UNKNOWN

    def _restart(self, standing: TargetPosition) -> None:
        self.log_end = self.position = standing.log_end
        self.last_epoch = standing.last_epoch

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def is_fetching(self) -> bool:
        return self.state in FETCHING and self.position >= 0

    @property
    def lag(self) -> int | None:
        """In offsets; None before the source has answered."""
        if self.high_watermark < 0 or self.log_end < 0:
            return None
        return max(0, self.high_watermark - self.log_end)

    def lag_ms(self, now: float) -> int | None:
        """How long ago the target had everything that the source had."""
        lag = self.lag
        if lag is None:
            return None
        return max(0, int((now - self.caught_up_at) * 1000)) if lag else 0

    def take(self, fetched: FetchResult, now: float) -> Payload | None:
        """What to append now. None: nothing, or the state says why."""
        if not self.is_fetching or fetched.fetch_offset != self.position:
            return None  # an answer to an older question
        if fetched.error:
            return self._refused(fetched, now)
        if self.state is LinkStatus.SOURCE_UNAVAILABLE:
            self.state, self.reason = LinkStatus.ACTIVE, ""
        if fetched.diverging_end >= 0:
            return self._truncated(fetched, min(fetched.diverging_end, self.position), now)
        if self.lag == 0:
            self.caught_up_at = now
        moved = fetched.log_start > self.log_start
        self.high_watermark, self.log_start = fetched.high_watermark, max(self.log_start, fetched.log_start)
        if len(fetched.records):
            return self._walk(fetched, now)
        return self._payload(fetched, 0, self.position, self.last_epoch, now) if moved else None

    # -- inside ---------------------------------------------------------------------------------------------------

    def _refused(self, fetched: FetchResult, now: float) -> Payload | None:
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(fetched, now)
        if fetched.error in RETRIABLE or fetched.error in GONE:
            self.unavailable(fetched.error.name)
        else:
            self.fail(f"the source refuses: {fetched.error.name}")
        return None

    def _out_of_range(self, fetched: FetchResult, now: float) -> Payload | None:
        """Kafka gives no offsets with this error, so the fetcher has asked for them (ListOffsets)."""
        if fetched.log_start > self.position:
            last = fetched.log_start - 1
            lost = f"the source has deleted offsets {self.position} to {last} before they were mirrored"
            if not self.following.gaps:
                self.fail(
                    f"{lost}; `barnabas mirror run --on-gap=follow` empties the target and goes on behind them"
                )
                return None
            return self._cut(fetched, fetched.log_start, now)
        if 0 <= fetched.high_watermark < self.position:
            return self._truncated(fetched, fetched.high_watermark, now)
        return None  # a leader that is not up to date: it will be

    def _truncated(self, fetched: FetchResult, end: int, now: float) -> Payload | None:
        if not self.following.truncation:
            self.fail(
                f"the source was cut to offset {end} (an unclean election, or a source that went back in time) and the "
                f"target ends at {self.position}; `barnabas mirror run --on-truncation=follow` cuts the target too"
            )
            return None
        return self._cut(fetched, end, now)

    def _cut(self, fetched: FetchResult, end: int, now: float) -> Payload:
        """The target's log shall end at `end`; beyond its end it is emptied and begins there. Where it ends then, and
        with which epoch, the target says: both logs may differ even before that, and the next fetch asks."""
        before, self.position = self.position, end
        payload = self._payload(fetched, 0, end, NO_EPOCH, now)
        self.position, self.last_epoch = UNKNOWN, NO_EPOCH
        return payload._replace(truncate_to=end, expected_end=before, truncate_epoch=fetched.diverging_epoch)

    def _walk(self, fetched: FetchResult, now: float) -> Payload | None:
        """Whole batches up to the first that is cut off. CRCs are the target's to check, which must do so anyway."""
        records, total = fetched.records, len(fetched.records)
        at, position, epoch = 0, self.position, self.last_epoch
        while at + HEADER_SIZE <= total:
            base, length, batch_epoch, magic, _, _, last_delta, *_ = unpack_header(records, at)
            end = at + LOG_OVERHEAD + length
            if length < MIN_LENGTH or magic != MAGIC or last_delta < 0:
                return self._garbage(
                    f"no batch of this format (magic {magic}, {length} bytes) at offset {position}"
                )
            if end > total:
                break
            if base + last_delta < position or (base < position and position != fetched.fetch_offset):
                return self._garbage(
                    f"a batch of offsets {base} to {base + last_delta} where {position} was due"
                )
            if batch_epoch < epoch:
                return self._garbage(
                    f"a batch of leader epoch {batch_epoch} after one of {epoch}, at offset {base}"
                )
            if base > position and not self._may_skip(position, base):
                break
            at, position, epoch = end, base + last_delta + 1, batch_epoch
        if not at:
            return None
        payload = self._payload(fetched, at, position, epoch, now)
        self.position, self.last_epoch = position, epoch
        return payload

    def _may_skip(self, position: int, base: int) -> bool:
        """Compaction leaves gaps, and so does a log that begins above 0."""
        if self.compacted or position <= self.log_start:
            return True
        self.fail(f"offsets {position} to {base - 1} are missing at the source, whose topic is not compacted")
        return False

    def _garbage(self, what: str) -> Payload | None:
        self.damaged += 1
        if self.damaged >= DAMAGED_MOST:
            self.fail(
                f"the source answers with {what}, {DAMAGED_MOST} times; `barnabas mirror resume` tries again"
            )
        return None

    def _payload(self, fetched: FetchResult, size: int, position: int, epoch: int, now: float) -> Payload:
        return Payload(
            self.tp,
            fetched.records[:size],
            self.position,
            position,
            epoch,
            fetched.high_watermark,
            fetched.log_start,
            now,
            fetched.aborted,
        )
