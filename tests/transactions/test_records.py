"""`__transaction_state` records compared with Kafka's classes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.transactions.shard import from_record, to_record
from barnabas.transactions.transaction import Transaction, TransactionState

ids = st.integers(-1, 2**63 - 1)
written_states = st.sampled_from(
    [state for state in TransactionState if state not in (TransactionState.DEAD, TransactionState.EMPTY)]
)
partitions = st.builds(TopicPartition, st.text("abc.-_", min_size=1, max_size=8), st.integers(0, 1000))


@given(
    st.builds(
        Transaction,
        st.text(min_size=1, max_size=30),
        ids,
        st.integers(1, 2**31 - 1),
        ids,
        epoch=st.integers(0, 32767),
        state=written_states,
        partitions=st.frozensets(partitions, max_size=8),
        started_ms=ids,
        version=st.sampled_from([0, 2]),
        previous_producer_id=ids,
        next_producer_id=ids,
    )
)
def test_a_transaction_survives_its_record(transaction: Transaction) -> None:
    record = to_record(transaction)
    assert from_record(record.key, record.value) == (transaction.transactional_id, transaction)


def test_a_dead_id_is_a_tombstone() -> None:
    record = to_record(Transaction("payments", 1, 60_000, 0).dead())
    assert from_record(record.key, record.value) == ("payments", None)


def test_a_record_is_byte_for_byte_that_of_kafka() -> None:
    ongoing = Transaction(
        "payments",
        4000,
        60_000,
        1_700_000_000_123,
        epoch=2,
        state=TransactionState.ONGOING,
        partitions=frozenset({TopicPartition("orders", 1), TopicPartition("orders", 0)}),
        started_ms=1_700_000_000_000,
        version=2,
    )
    record = to_record(ongoing)
    assert record.key.hex() == "0000" + "0008" + b"payments".hex()
    assert record.value is not None
    assert record.value.hex() == (
        "0001" + "0000000000000fa0" + "0002" + "0000ea60" + "01"  # version, producer, timeout, Ongoing
        + "02" + "07" + b"orders".hex() + "03" + "00000000" + "00000001" + "00"  # orders: 0, 1
        + "0000018bcfe5687b" + "0000018bcfe56800"  # updated, started
        + "01" + "02" + "02" + "0002"  # one tagged field, 2: the client's transaction version
    )  # fmt: skip
