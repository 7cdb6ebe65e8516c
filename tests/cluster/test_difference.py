"""The deltas between two images."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barnabas.cluster.deltas import apply
from barnabas.cluster.difference import difference
from tests.cluster.histories import histories, replay


@given(histories(), st.integers(0, 15))
def test_the_difference_to_a_later_image_leads_there(entries: list, cut: int) -> None:  # type: ignore[type-arg]
    before, after = replay(entries[:cut]), replay(entries)
    reached = apply(before, difference(before, after))
    assert replace(reached, offset=after.offset) == after


@given(histories(), histories())
def test_the_difference_between_any_two_images_leads_from_one_to_the_other(one: list, other: list) -> None:  # type: ignore[type-arg]
    before, after = replay(one), replay(other)
    reached = apply(before, difference(before, after))
    assert replace(reached, offset=after.offset) == after


@given(histories())
def test_nothing_differs_from_itself(entries: list) -> None:  # type: ignore[type-arg]
    assert difference(replay(entries), replay(entries)) == []
