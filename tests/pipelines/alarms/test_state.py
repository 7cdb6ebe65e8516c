"""States of an alarm, window by window."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.alarms.state import PipelineAlarm, WindowValue
from barnabas.pipelines.definitions.settings import AlarmRule


def rule(hold: str = "0s", above: float | None = 10, below: float | None = None) -> AlarmRule:
    return AlarmRule(
        dataset="d",
        name="slow",
        value="max(x)",
        window="10s",
        above=above,
        below=below,
        hold=hold,
        severity="critical",
    )


def windows(*values: float, key: str = "k") -> list[WindowValue]:
    """One after another, ten seconds each."""
    return [WindowValue(key, index * 10.0, index * 10.0 + 10, value) for index, value in enumerate(values)]


def story(alarm: PipelineAlarm, *values: float) -> list[tuple[str, float]]:
    return [(event.status, event.at) for event in alarm.take(windows(*values))]


def test_failing_window_fires_immediately_without_a_duration() -> None:
    assert story(PipelineAlarm(rule()), 1, 11, 12) == [("fired", 20)]


def test_a_good_window_resolves() -> None:
    assert story(PipelineAlarm(rule()), 11, 3, 2) == [("fired", 10), ("resolved", 20)]


def test_it_fires_only_after_it_was_bad_for_long_enough() -> None:
    assert story(PipelineAlarm(rule("25s")), 11, 11, 11, 1) == [("fired", 30), ("resolved", 40)]


def test_passing_window_in_between_restarts_the_duration() -> None:
    assert story(PipelineAlarm(rule("20s")), 11, 1, 11, 11) == [("fired", 40)]


def test_time_without_a_window_does_not_count_as_bad() -> None:
    alarm = PipelineAlarm(rule("5m"))
    assert alarm.take([WindowValue("k", 0.0, 10.0, 11.0), WindowValue("k", 3600.0, 3610.0, 11.0)]) == []
    going_on = [WindowValue("k", start, start + 10.0, 11.0) for start in range(3610, 3910, 10)]
    assert [(event.status, event.since, event.at) for event in alarm.take(going_on)] == [
        ("fired", 3600.0, 3900.0)
    ]


def test_firing_alarms_stay_firing_without_a_value() -> None:
    alarm = PipelineAlarm(rule())
    fired = alarm.take(windows(11))
    assert alarm.take([WindowValue("k", 3600.0, 3610.0, 11.0)]) == []
    resolved = alarm.take([WindowValue("k", 3610.0, 3620.0, 1.0)])
    assert [event.id for event in resolved] == [event.id for event in fired]


def test_the_threshold_itself_is_good() -> None:
    assert story(PipelineAlarm(rule()), 10) == []


def test_below_watches_the_other_side() -> None:
    assert story(PipelineAlarm(rule(above=None, below=5)), 6, 4, 6) == [("fired", 20), ("resolved", 30)]


def test_keys_do_not_disturb_each_other() -> None:
    alarm = PipelineAlarm(rule("20s"))
    events = alarm.take([*windows(11, 11, key="a"), *windows(11, 1, key="b")])
    assert [(event.key, event.status) for event in events] == [("a", "fired")]
    assert alarm.firing() == ["a"]


def test_a_fired_and_a_resolved_event_have_the_id_of_the_same_alarm() -> None:
    fired, resolved = PipelineAlarm(rule()).take(windows(11, 1))
    assert fired.id == resolved.id
    assert (fired.since, resolved.since) == (0.0, 0.0)


def test_old_window_is_ignored() -> None:
    alarm = PipelineAlarm(rule())
    alarm.take(windows(11, 11))
    assert alarm.take([WindowValue("k", 0.0, 10.0, 1.0)]) == []
    assert alarm.firing() == ["k"]


@given(st.lists(st.floats(0, 20), max_size=30), st.integers(0, 40), st.integers(0, 30))
def test_batches_make_no_difference(values: list[float], hold: int, cut: int) -> None:
    """State passed between batches has the same result as a single batch."""
    complete = PipelineAlarm(rule(f"{hold}s")).take(windows(*values))
    first = PipelineAlarm(rule(f"{hold}s"))
    events = first.take(windows(*values)[:cut])
    second = PipelineAlarm(rule(f"{hold}s"), first.states)
    assert events + second.take(windows(*values)[cut:]) == complete


@given(st.lists(st.floats(0, 20), max_size=30), st.integers(0, 40))
def test_fired_alarm_resolves_before_it_fires_again(values: list[float], hold: int) -> None:
    statuses = [status for status, _ in story(PipelineAlarm(rule(f"{hold}s")), *values)]
    assert statuses == [("fired", "resolved")[index % 2] for index in range(len(statuses))]
