"""Ends of micro-batches, and detection of unusable slots, without a server."""

import pytest

from barnabas.connect.sources.postgres.reader import QUIET_BYTES, StreamEnd, WalPosition, next_end
from barnabas.connect.sources.postgres.slot import (
    Peeked,
    ReplicationSlot,
    SlotState,
    System,
    check_state,
    left_at,
    lsn_text,
    parse_lsn,
)
from barnabas.spark.errors import SourceError

SLOT = ReplicationSlot("shop", "shop")


def test_positions_are_written_as_postgresql_writes_them() -> None:
    assert lsn_text(parse_lsn("16/B374D848")) == "16/B374D848"
    position = WalPosition(parse_lsn("16/B374D848"), System("7", 2))
    assert WalPosition.from_json(position.to_json()) == position
    assert WalPosition.from_json(WalPosition().to_json()) == WalPosition()


def test_a_batch_ends_behind_the_last_commit_that_was_peeked() -> None:
    assert next_end(100, 500, 10, lambda _: Peeked(4, 300), is_quiet=False) == StreamEnd(300, False)


def test_peek_without_new_messages_is_extended() -> None:
    requests = []

    def peek(limit: int) -> Peeked:
        requests.append(limit)
        return Peeked(limit, 100) if limit < 50 else Peeked(60, 400)

    assert next_end(100, 500, 10, peek, is_quiet=False) == StreamEnd(400, False)
    assert requests == [10, 40, 160]


def test_the_position_moves_without_changes_only_when_it_was_quiet_for_long() -> None:
    def peek(_: int) -> Peeked:
        return Peeked(0, None)

    assert next_end(100, 500, 10, peek, is_quiet=False) is None
    assert next_end(100, 500, 10, peek, is_quiet=True) == StreamEnd(500, True)
    assert next_end(100, 100 + QUIET_BYTES, 10, peek, is_quiet=False) == StreamEnd(100 + QUIET_BYTES, True)
    assert next_end(500, 500, 10, peek, is_quiet=True) is None


def state(**changed: object) -> SlotState:
    return SlotState("pgoutput", "shop", 100, "reserved", None)._replace(**changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "no longer exists"),
        (state(wal_status="lost"), r"is lost.*max_slot_wal_keep_size.*Start over"),
        (state(confirmed=101), "ahead of this connector"),
        (state(plugin="wal2json"), "set another `slot`"),
        (state(database="other"), "set another `slot`"),
    ],
)
def test_a_slot_that_cannot_have_everything_is_refused(found: SlotState | None, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        check_state(found, SLOT, 100, "shop")


def test_a_slot_at_or_behind_the_position_is_good() -> None:
    for confirmed in (0, 99, 100):
        assert check_state(state(confirmed=confirmed), SLOT, 100, "shop").confirmed == confirmed


def test_history_has_the_offset_at_which_a_timeline_was_left() -> None:
    history = "1\t0/3000000\tno recovery target specified\n\n2\t0/5000060\tno recovery target specified\n"
    assert left_at(history, 1) == 0x3000000
    assert left_at(history, 2) == 0x5000060
    assert left_at(history, 3) is None
