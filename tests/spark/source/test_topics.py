"""Topics matched by a pattern."""

import pytest

from barnabas.spark.options import OptionError
from barnabas.spark.source.topics import matching

NAMES = ["__consumer_offsets", "__barnabas_sinks", "__mine", "old-orders", "orders"]
INTERNAL = {"__consumer_offsets"}


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("orders", ["old-orders", "orders"]),
        ("^orders$", ["orders"]),
        (".*", ["__mine", "old-orders", "orders"]),
        ("__", ["__mine"]),
        ("nothing", []),
    ],
)
def test_a_pattern_is_found_in_names_of_topics_that_people_mean(pattern: str, meant: list[str]) -> None:
    assert matching(NAMES, INTERNAL, pattern) == meant


def test_invalid_pattern_is_reported() -> None:
    with pytest.raises(OptionError, match=r"'subscribePattern': invalid regular expression"):
        matching(NAMES, INTERNAL, "(")
