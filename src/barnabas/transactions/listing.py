"""ListTransactions: which transactional ids a request asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.transactions.patterns import safe_pattern
from barnabas.transactions.states import BY_LABEL
from barnabas.transactions.transaction import Transaction


class Filters(NamedTuple):
    """Empty filters let everything through."""

    states: list[str]
    producer_ids: list[int]
    longer_than_ms: int = -1
    pattern: str | None = None

    @property
    def unknown_states(self) -> list[str]:
        return [state for state in self.states if state not in BY_LABEL]

    def select(self, transactions: Iterable[Transaction], now_ms: int) -> list[Transaction]:
        """A bad pattern raises INVALID_REGULAR_EXPRESSION."""
        pattern = safe_pattern(self.pattern) if self.pattern else None
        states = {BY_LABEL[state] for state in self.states if state in BY_LABEL}
        return [
            one
            for one in transactions
            if (not self.producer_ids or one.producer_id in self.producer_ids)
            and (not self.states or one.state in states)
            and (self.longer_than_ms < 0 or now_ms - one.started_ms > self.longer_than_ms)
            and (pattern is None or pattern.fullmatch(one.transactional_id) is not None)
        ]
