"""Filters of ListTransactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.transactions.transaction import BY_LABEL, Transaction


class Filters(NamedTuple):
    """Empty filters match everything."""

    states: list[str]
    producer_ids: list[int]
    longer_than_ms: int = -1
    pattern: str | None = None

    @property
    def unknown_states(self) -> list[str]:
        return [state for state in self.states if state not in BY_LABEL]

    def test(self, now_ms: int) -> Callable[[Transaction], bool]:
        """Return a predicate for transactions; an invalid pattern raises INVALID_REGULAR_EXPRESSION."""
        pattern = _compiled(self.pattern) if self.pattern else None
        states = {BY_LABEL[state] for state in self.states if state in BY_LABEL}
        producer_ids = frozenset(self.producer_ids)

        def is_wanted(one: Transaction) -> bool:
            return (
                (not producer_ids or one.producer_id in producer_ids)
                and (not self.states or one.state in states)
                and (self.longer_than_ms < 0 or now_ms - one.started_ms > self.longer_than_ms)
                and (pattern is None or pattern.fullmatch(one.transactional_id) is not None)
            )

        return is_wanted


def _compiled(pattern: str) -> Any:
    try:
        return compile_for_long_texts(pattern)
    except PatternError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"invalid pattern {pattern!r}: {error}"
        ) from None
