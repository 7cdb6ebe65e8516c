from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest.outbox import Outbox


def test_undelivered_records_are_sent_again_in_order() -> None:
    outbox: Outbox[str] = Outbox()
    _, first = outbox.send("a")
    outbox.send("b")
    outbox.send("c")
    assert outbox.begin(first) == ["a"]
    assert [outbox.again(), outbox.again(), outbox.again()] == ["b", "c", None]


def test_counters_of_another_process_are_ignored() -> None:
    outbox, other = Outbox[str](), Outbox[str]()
    for _ in range(5):
        _, stored = other.send("x")
    outbox.send("a")
    assert outbox.begin(stored) == []
    assert outbox.again() == "a"


@given(st.lists(st.sampled_from(["send", "commit", "lost", "unanswered"]), max_size=40))
def test_every_record_arrives_once_despite_failures(steps: list[str]) -> None:
    """`lost`: the transaction is aborted; `unanswered`: it is committed without a response."""
    outbox: Outbox[int] = Outbox()
    stored: dict[str, bytes] = {}
    written: list[int] = []
    response: list[int] = []
    on_way: list[tuple[int, dict[str, bytes], int]] = []
    made = 0
    for step in [*steps, *["lost", *["send", "commit"] * 80]]:
        if step == "send" and len(on_way) < 2:
            parcel = outbox.again()
            if parcel is None:
                made += 1
                parcel = made
            on_way.append((*outbox.send(parcel), parcel))
        elif step != "send" and on_way:
            number, positions, parcel = on_way.pop(0)
            if step != "lost":
                stored.update(positions)
                written.append(parcel)
            if step == "commit":
                response += outbox.arrived(number)
        if step in ("lost", "unanswered"):
            on_way.clear()
            response += outbox.begin(stored)
    assert not outbox.unsettled or len(outbox.unsettled) <= 2
    assert written == sorted(set(written)) == response == list(range(1, len(written) + 1))
