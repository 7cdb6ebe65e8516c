from __future__ import annotations

import pytest

from barnabas.common.errors import KafkaError
from barnabas.transactions.listing import Filters
from barnabas.transactions.transaction import Transaction, TransactionState

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
    assert [one for one in ALL if filters.test(NOW)(one)] == expected


def test_unknown_states_are_named() -> None:
    assert Filters(["Ongoing", "Nonsense"], []).unknown_states == ["Nonsense"]


@pytest.mark.parametrize(
    "pattern", ["(", "a{2,1}", r"(a)\1", "(?=a)b", "(?<!a)b", "a" * 5000, "(.{900}){900}", "\ud800"]
)
def test_patterns_that_re2_does_not_know_or_that_are_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        Filters([], [], pattern=pattern).test(NOW)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("tx-[0-9]+", "tx-17"), ("(a|b)*", "abba"), ("a.*z", "a to z"), ("(a+)+b", "aab"), ("((a*)b?)*", "ab")],
)
def test_ordinary_patterns_match(pattern: str, text: str) -> None:
    assert Filters([], [], pattern=pattern).test(NOW)(Transaction(text, 1, 1000, 0))


def test_a_pattern_that_would_take_days_takes_no_time() -> None:
    is_wanted = Filters([], [], pattern="(a|aa)*b").test(NOW)
    assert not is_wanted(Transaction("a" * 30_000, 1, 1000, 0))
