"""Settings with their defaults, and changes with optimistic locking."""

from __future__ import annotations

import pytest

from barnabas.client import admin
from barnabas.protocol.messages.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from barnabas.services.console.administration.configuration import (
    ConfigRow,
    check_seen,
    difference,
    parse_changes,
    plain_text,
    seen_of,
    setting_of,
    spell,
)
from barnabas.services.console.errors import BadInputError, StaleError

OWN = frozenset({admin.SET_ON_TOPIC})


def described(value: str, source: int, *synonyms: tuple[str, int]) -> DescribeConfigsResourceResult:
    found = [DescribeConfigsSynonym("retention.ms", text, number) for text, number in synonyms]
    return DescribeConfigsResourceResult("retention.ms", value, config_source=source, synonyms=found)


def setting(
    name: str, value: str, default: str = "1", *, is_set: bool = False, sensitive: bool = False
) -> ConfigRow:
    return ConfigRow(name, value, default, is_set, "topic" if is_set else "default", False, sensitive, "")


def test_default_next_to_a_changed_value_is_the_inherited_one() -> None:
    changed = setting_of(described("5", 1, ("5", 1), ("7", 4), ("9", 5)), OWN)
    assert (changed.value, changed.default, changed.is_set, changed.source) == ("5", "7", True, "topic")

    default = setting_of(described("9", 5, ("9", 5)), OWN)
    assert (default.value, default.default, default.is_set) == ("9", "9", False)


def test_a_value_that_must_not_be_seen_is_not_shown() -> None:
    secret = described("x", 1, ("x", 1))
    secret.is_sensitive = True
    found = setting_of(secret, OWN)
    assert found.value is None
    assert found.shown == "(hidden)"


@pytest.mark.parametrize(
    "text", ["", "  \n ", "=5", "a b=5", "a=1\na=2", "\n".join(f"n{i}=1" for i in range(300))]
)
def test_impossible_changes_are_rejected_with_a_message(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_changes(text)


def test_delta_contains_only_the_changes() -> None:
    settings = [setting("a", "5", is_set=True), setting("b", "1"), setting("c", "3", "1", is_set=True)]
    found = difference(settings, parse_changes("a=5\r\nb\nc\n"))
    assert [(each.name, each.before, each.after, each.is_reset) for each in found] == [("c", "3", "1", True)]
    assert spell(found) == "c"

    # Setting the default value explicitly is a change: the default may change later.
    assert [each.name for each in difference(settings, {"b": "1"})] == ["b"]


def test_a_setting_that_is_not_there_or_cannot_change_is_refused() -> None:
    fixed = setting("port", "1")
    fixed.read_only = True
    with pytest.raises(BadInputError, match="Unknown setting 'x'"):
        difference([fixed], {"x": "1"})
    with pytest.raises(BadInputError, match="before it starts"):
        difference([fixed], {"port": "2"})


def test_a_form_that_was_made_from_other_values_is_refused_with_the_difference() -> None:
    seen = seen_of(difference([setting("a", "5", is_set=True)], {"a": "7"}))
    check_seen([setting("a", "5", is_set=True)], seen)
    check_seen([setting("a", "6", is_set=True)], "")
    with pytest.raises(StaleError, match="a was 5 and is 6 now"):
        check_seen([setting("a", "6", is_set=True)], seen)
    with pytest.raises(BadInputError):
        check_seen([], "no json")


def test_markup_of_apache_s_documentation_is_taken_out() -> None:
    assert plain_text("Use <code>a &lt; b</code>, <a href='x'>see</a>; 1 < 2.") == "Use a < b, see; 1 < 2."
