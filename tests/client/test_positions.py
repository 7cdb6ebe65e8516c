import datetime

import pytest

from barnabas.client.offsets import Start, parse_start


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Start("beginning")),
        ("Earliest", Start("beginning")),
        ("end", Start("end")),
        ("0", Start("offset", 0)),
        ("120", Start("offset", 120)),
        ("-10", Start("last", 10)),
        ("1700000000000", Start("time", 1_700_000_000_000)),
        ("2026-11-15T08:30:00+00:00", Start("time", 1_794_731_400_000)),
    ],
)
def test_a_start_is_a_word_a_number_or_a_time(text: str, expected: Start) -> None:
    assert parse_start(text) == expected


def test_a_time_without_a_zone_is_local_time() -> None:
    local = datetime.datetime(2026, 11, 15, 8, 30).astimezone()
    assert parse_start("2026-11-15T08:30") == Start("time", int(local.timestamp() * 1000))


def test_another_text_is_refused_with_examples() -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset such as 120"):
        parse_start("yesterday")
