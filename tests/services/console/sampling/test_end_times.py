from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.services.console.sampling.end_times import MAX_NOTES, EndTimes

START = 1_800_000_000_000


def times_of(*notes: tuple[int, int]) -> EndTimes:
    """(seconds, end) of partition 0 of `t`."""
    times = EndTimes()
    for seconds, end in notes:
        times.note("t", START + seconds * 1000, (end,))
    return times


def age_at(times: EndTimes, offset: int, seconds: int) -> float | None:
    written = times.written_ms("t", 0, offset)
    return None if written is None else seconds - (written - START) / 1000


def test_between_two_notes_the_end_moved_evenly() -> None:
    times = times_of((0, 100), (10, 200))

    assert age_at(times, 100, 10) == 10
    assert age_at(times, 150, 10) == 5
    assert age_at(times, 175, 10) == 2.5


def test_a_record_that_was_written_after_a_pause_is_not_taken_for_older_than_the_pause() -> None:
    times = times_of((0, 100), (10, 100), (20, 100), (30, 200))

    assert age_at(times, 100, 30) == 10


def test_time_before_the_first_sample_or_of_an_unwritten_offset_is_unknown() -> None:
    times = times_of((0, 100), (10, 200))

    assert times.written_ms("t", 0, 99) is None
    assert times.written_ms("t", 0, 200) is None
    assert times.written_ms("t", 1, 0) is None
    assert times.written_ms("other", 0, 0) is None


def test_read_record_makes_the_time_of_older_ones_known() -> None:
    times = times_of((0, 100), (10, 200))
    times.note_record(TopicPartition("t", 0), 50, START - 50_000)

    assert age_at(times, 50, 10) == 60
    assert age_at(times, 75, 10) == 35
    assert times.written_ms("t", 0, 49) is None


def test_deleted_topics_are_forgotten() -> None:
    times = times_of((0, 100), (10, 200))
    times.note_record(TopicPartition("t", 0), 50, START)
    times.keep(set())

    assert times.written_ms("t", 0, 150) is None


@given(st.integers(1, 50), st.lists(st.integers(0, 400), min_size=1, max_size=20))
def test_at_an_even_rate_the_age_is_exact_after_any_number_of_drops(rate: int, back: list[int]) -> None:
    ticks = 400
    times = times_of(*((10 * at, 10 * at * rate) for at in range(ticks + 1)))

    assert len(times._notes["t"]) <= MAX_NOTES
    for seconds in back:
        offset = (10 * ticks - seconds) * rate
        if seconds:
            age = age_at(times, offset, 10 * ticks)
            assert age is not None
            assert abs(age - seconds) < 0.01
