"""Parsing of durations."""

import pytest

from barnabas.common.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("10 seconds", 10),
        ("1 minute", 60),
        ("2h", 7200),
        ("1.5 Minutes", 90),
        ("100ms", 0.1),
        ("1 day", 86400),
    ],
)
def test_a_length_of_time_is_understood_as_it_is_spoken(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "10", "10 parsecs", "-1s"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        seconds_of(text)
