"""Limits of a transaction coordinator: transactional ids, and open transactions without a timeout.

A transaction without a timeout (KIP-939) stays open until it is ended and blocks read_committed consumers.
Their
number is therefore limited, in total and per prefix: one faulty application leaves room for the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.transactions.transaction import NO_TIMEOUT_MS, Transaction

IDS = "barnabas.transactional.ids.max"
WITHOUT_TIMEOUT = "barnabas.transactions.without.timeout.max"
WITHOUT_TIMEOUT_PER_PREFIX = "barnabas.transactions.without.timeout.per.prefix.max"

_NUMBERED_PART = re.compile(r"[-.](?=\d)")


def prefix_of(transactional_id: str) -> str:
    """The application part of an id: everything before the first component that begins with a digit.

    Components are separated by - and `.`: the ids of a sink are `<sink>-<run>-<writer>`, most others are
    `<application>-<number>`.
    """
    return _NUMBERED_PART.split(transactional_id, maxsplit=1)[0]


class TransactionLimits(NamedTuple):
    ids: int
    without_timeout: int
    without_timeout_per_prefix: int


class OpenWithoutTimeout:
    """The open transactions of one shard without a timeout.

    `note` is called for every transition of every id.
    """

    def __init__(self) -> None:
        self._open: dict[str, Transaction] = {}
        self._by_prefix: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._open.values())

    def of_prefix(self, prefix: str) -> int:
        return self._by_prefix[prefix]

    def note(self, transactional_id: str, now: Transaction | None) -> None:
        is_open = now is not None and now.is_ongoing and now.timeout_ms == NO_TIMEOUT_MS
        was_open = self._open.pop(transactional_id, None) is not None
        if now is not None and is_open:
            self._open[transactional_id] = now
        if is_open != was_open:
            self._count(prefix_of(transactional_id), 1 if is_open else -1)

    def _count(self, prefix: str, change: int) -> None:
        self._by_prefix[prefix] += change
        if not self._by_prefix[prefix]:
            del self._by_prefix[prefix]


class HasOpen(Protocol):
    without_timeout: OpenWithoutTimeout


def check_room(shards: Iterable[HasOpen], transactional_id: str, bounds: TransactionLimits) -> None:
    """Raise POLICY_VIOLATION if one more transaction without a timeout exceeds a limit."""
    tallies = [shard.without_timeout for shard in shards]
    if sum(map(len, tallies)) >= bounds.without_timeout:
        raise _too_many(f"{WITHOUT_TIMEOUT}={bounds.without_timeout} are open")
    prefix = prefix_of(transactional_id)
    if sum(tally.of_prefix(prefix) for tally in tallies) >= bounds.without_timeout_per_prefix:
        setting = f"{WITHOUT_TIMEOUT_PER_PREFIX}={bounds.without_timeout_per_prefix}"
        raise _too_many(f"{setting} are open under ids that begin with {prefix!r}")


def _too_many(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"too many transactions without a timeout: {reason}; end some (barnabas transactions list --state Ongoing)",
    )
