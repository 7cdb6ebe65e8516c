from __future__ import annotations

import pytest

from barnabas.errors import KafkaError
from barnabas.transactions.listing import Filters
from barnabas.transactions.patterns import safe_pattern
from barnabas.transactions.states import TransactionState
from barnabas.transactions.transaction import Transaction

NOW = 100_000
OLD = Transaction("old-payments", 1, 1000, 0, state=TransactionState.ONGOING, started_ms=NOW - 60_000)
NEW = Transaction("new-payments", 2, 1000, 0, state=TransactionState.ONGOING, started_ms=NOW - 10)
IDLE = Transaction("idle", 3, 1000, 0)
ALL = [OLD, NEW, IDLE]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters([], []), ALL),
        (Filters(["Ongoing"], []), [OLD, NEW]),
        (Filters(["Ongoing", "Nonsense"], []), [OLD, NEW]),
        (Filters(["Nonsense"], []), []),
        (Filters([], [2, 3]), [NEW, IDLE]),
        (Filters(["Ongoing"], [], longer_than_ms=30_000), [OLD]),
        (Filters([], [], pattern=".*-payments"), [OLD, NEW]),
        (Filters([], [], pattern="payments"), []),
    ],
)
def test_filters_select_transactions(filters: Filters, expected: list[Transaction]) -> None:
    assert filters.select(ALL, NOW) == expected


def test_unknown_states_are_named() -> None:
    assert Filters(["Ongoing", "Nonsense"], []).unknown_states == ["Nonsense"]


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "((a*)b?)*", "(", "a{2,1}", r"(a)\1", "(?=a)b", "(?<!a)b", "a" * 2000]
)
def test_patterns_that_are_wrong_or_could_take_forever_are_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        safe_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"), [("tx-[0-9]+", "tx-17"), ("(a|b)*", "abba"), ("a.*z", "a to z")]
)
def test_ordinary_patterns_match(pattern: str, text: str) -> None:
    assert safe_pattern(pattern).fullmatch(text)
