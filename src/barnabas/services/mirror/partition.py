"""State machine of one mirrored partition: turns fetch results into payloads to append, or into a failure.

                  fetched, appended          paused               promoting           promoted
    ACTIVE        ACTIVE, or FAILED          PAUSED               PROMOTING           STOPPED
    SOURCE_       ACTIVE                     PAUSED               PROMOTING           STOPPED
     UNAVAILABLE
    PAUSED        - (nothing is fetched)     PAUSED               PROMOTING           STOPPED
    FAILED        - (nothing is fetched)     FAILED               PROMOTING           STOPPED
    PROMOTING     - (leaders refuse)         PROMOTING            PROMOTING           STOPPED

An operator resumes a FAILED partition (`barnabas mirror resume`). The target is never truncated because the source was,
unless requested (`--on-truncation=follow`).

Offsets: `position` is the next fetch offset, `log_end` the log end offset of the target; between them are appends in
flight. (`position`, `last_epoch`) identifies the last batch, so that a source with a different log detects divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client import RETRIABLE
from barnabas.client.mirrors.store import LinkStatus
from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.records.batch import HEADER_SIZE, MAGIC, MIN_LENGTH, unpack_header

NO_EPOCH = -1
UNKNOWN = -1
LOG_OVERHEAD = 12
DAMAGED_MOST = 3
"""Consecutive invalid responses before the partition fails: a single one may be a transmission error."""

GONE = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
"""The source may have deleted the topic; its metadata show if so."""

FORBIDDEN = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Missing permissions: docs/mirror.md lists those a mirror needs."""
_DIVERGED = frozenset(
    {ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.MESSAGE_TOO_LARGE}
)


FETCHING = frozenset({LinkStatus.ACTIVE, LinkStatus.SOURCE_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Following:
    """Destructive actions the user has allowed."""

    truncation: bool = False
    """Truncate the target to match a truncated source."""
    gaps: bool = False
    """Skip records that the source deleted before they were mirrored."""


class FetchResult(NamedTuple):
    """Fetch response for one partition."""

    fetch_offset: int
    error: ErrorCode
    records: memoryview
    high_watermark: int
    log_start: int
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset), only with read_committed."""
    diverging_end: int = UNKNOWN
    """End offset of `diverging_epoch` in the source if the logs diverge; otherwise -1."""
    diverging_epoch: int = NO_EPOCH
    """Largest epoch in the source that does not exceed the last fetched one."""


class Payload(NamedTuple):
    """Complete batches to append, a truncation, or both."""

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
    """Position of a partition in the target, and the error, if any; -1 if unknown."""

    log_end: int
    last_epoch: int
    is_empty: bool
    """True if nothing was mirrored yet: start at the source's log start offset."""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


class SourcePartition:
    """State machine without I/O: takes events and returns payloads."""

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

    # -- events ---------------------------------------------------------------------------------------------------

    def begin(self, log_end: int, last_epoch: int, now: float) -> None:
        """Start at the target's log end offset, and discard payloads in flight."""
        self.log_end = self.position = log_end
        self.last_epoch = last_epoch
        if not self.caught_up_at:
            self.caught_up_at = now

    def fail(self, reason: str) -> None:
        if self.state in FETCHING:
            self.state, self.reason = LinkStatus.FAILED, reason

    def resume(self) -> None:
        """Resume after an operator has fixed the source or allowed `Following`."""
        if self.state in (LinkStatus.FAILED, LinkStatus.PAUSED, LinkStatus.SOURCE_UNAVAILABLE):
            self.state, self.reason, self.damaged = LinkStatus.ACTIVE, "", 0

    def ordered(self, state: LinkStatus) -> None:
        """Apply the mirror state in the target's metadata: PAUSED, PROMOTING, STOPPED, or ACTIVE again."""
        if state in FETCHING:
            if self.state in (LinkStatus.PAUSED, LinkStatus.PROMOTING, LinkStatus.STOPPED):
                self.state, self.reason = LinkStatus.ACTIVE, ""
        elif state is not LinkStatus.FAILED and not (
            self.state is LinkStatus.FAILED and state is LinkStatus.PAUSED
        ):
            self.state = state

    def unavailable(self, reason: str) -> None:
        if self.state in FETCHING:
            self.state, self.reason = LinkStatus.SOURCE_UNAVAILABLE, reason

    def appended(self, payload: Payload, log_end: int) -> None:
        """Record an append that all in-sync replicas of the target have."""
        self.damaged = 0
        self.log_end = max(self.log_end, log_end) if payload.truncate_to == UNKNOWN else log_end
        if self.log_end >= payload.high_watermark:
            self.caught_up_at = max(self.caught_up_at, payload.arrived)

    def settle(self, payload: Payload, position: TargetPosition) -> None:
        """Process the target's response. Rejected records are fetched again from the target's log end offset."""
        code = position.error
        if not code:
            self.appended(payload, position.log_end)
            if payload.truncate_to != UNKNOWN or position.log_end < payload.next_offset:
                self._restart(position)  # a truncation inside a batch removes the whole batch
        elif code in _DIVERGED or (
            code == ErrorCode.OFFSET_OUT_OF_RANGE and position.log_end == payload.first
        ):
            self.fail(f"the target rejects the batch at offset {payload.first}: {position.message}")
        elif code == ErrorCode.CORRUPT_MESSAGE:
            self._restart(position)
            self._garbage(f"a damaged batch: {position.message}")
        elif position.log_end >= 0 and code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._restart(position)
        else:
            self.position = UNKNOWN

    def _restart(self, position: TargetPosition) -> None:
        self.log_end = self.position = position.log_end
        self.last_epoch = position.last_epoch

    # -- status and fetch results ---------------------------------------------------------------------------------

    @property
    def is_fetching(self) -> bool:
        return self.state in FETCHING and self.position >= 0

    @property
    def lag(self) -> int | None:
        """Lag in offsets; None before the first fetch response."""
        if self.high_watermark < 0 or self.log_end < 0:
            return None
        return max(0, self.high_watermark - self.log_end)

    def lag_ms(self, now: float) -> int | None:
        """Time since the target had caught up with the source; None if unknown."""
        lag = self.lag
        if lag is None:
            return None
        return max(0, int((now - self.caught_up_at) * 1000)) if lag else 0

    def take(self, fetched: FetchResult, now: float) -> Payload | None:
        """Process a fetch result, and return the payload to append, if any. Errors change the state."""
        if not self.is_fetching or fetched.fetch_offset != self.position:
            return None  # a stale response
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

    # -- internals ------------------------------------------------------------------------------------------------

    def _refused(self, fetched: FetchResult, now: float) -> Payload | None:
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(fetched, now)
        if fetched.error in RETRIABLE or fetched.error in GONE:
            self.unavailable(fetched.error.name)
        else:
            self.fail(f"the source rejects the fetch: {fetched.error.name}")
        return None

    def _out_of_range(self, fetched: FetchResult, now: float) -> Payload | None:
        """Handle a deleted or truncated range. Kafka returns no offsets with this error; the fetcher adds them."""
        if fetched.log_start > self.position:
            last = fetched.log_start - 1
            lost = f"the source has deleted offsets {self.position} to {last} before they were mirrored"
            if not self.following.gaps:
                self.fail(
                    f"{lost}; `barnabas mirror run --on-gap=follow` truncates the target and continues after them"
                )
                return None
            return self._cut(fetched, fetched.log_start, now)
        if 0 <= fetched.high_watermark < self.position:
            return self._truncated(fetched, fetched.high_watermark, now)
        return None  # the leader is not up to date; retry

    def _truncated(self, fetched: FetchResult, end: int, now: float) -> Payload | None:
        if not self.following.truncation:
            self.fail(
                f"the source was truncated to offset {end} (an unclean election, or a restored backup), but the "
                f"target ends at {self.position}; `barnabas mirror run --on-truncation=follow` truncates the target too"
            )
            return None
        return self._cut(fetched, end, now)

    def _cut(self, fetched: FetchResult, end: int, now: float) -> Payload:
        """Return a payload that truncates the target to `end`; if its log ends earlier, the log is emptied and starts
        at `end`. The target returns its new end and epoch. The logs may diverge before `end`; the next fetch checks."""
        before, self.position = self.position, end
        payload = self._payload(fetched, 0, end, NO_EPOCH, now)
        self.position, self.last_epoch = UNKNOWN, NO_EPOCH
        return payload._replace(truncate_to=end, expected_end=before, truncate_epoch=fetched.diverging_epoch)

    def _walk(self, fetched: FetchResult, now: float) -> Payload | None:
        """Return the complete batches. CRCs are not verified here, since the target does so."""
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
                    f"a batch of offsets {base} to {base + last_delta} instead of {position}"
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
        """True if a gap in offsets is expected: after compaction, or up to the log start offset."""
        if self.compacted or position <= self.log_start:
            return True
        self.fail(f"offsets {position} to {base - 1} are missing at the source, whose topic is not compacted")
        return False

    def _garbage(self, what: str) -> Payload | None:
        self.damaged += 1
        if self.damaged >= DAMAGED_MOST:
            self.fail(f"the source returned {what}, {DAMAGED_MOST} times; `barnabas mirror resume` retries")
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
