"""Rules that are computed together, and what is noted and sent for each batch."""

from typing import Any

from barnabas.pipelines.alarms.watching import grouped
from barnabas.pipelines.definitions.settings import AlarmRule


def rule(name: str = "slow", **more: Any) -> AlarmRule:
    return AlarmRule(
        **{"dataset": "reports", "name": name, "value": "max(x)", "window": "1 minute", "above": 10} | more
    )


def names(*rules: AlarmRule) -> list[str]:
    return [group.name for group in grouped(rules)]


def test_rules_over_the_same_windows_are_one_query() -> None:
    groups = grouped([rule("slow", key=["service"]), rule("failing", key=["service"], window="60s", above=1)])
    assert [(group.name, [each.name for each in group.rules]) for group in groups] == [
        ("alarms-reports-service-60s", ["slow", "failing"])
    ]


def test_whatever_keeps_rules_apart_is_in_the_names_of_their_queries() -> None:
    different: list[dict[str, Any]] = [
        {},
        {"dataset": "others"},
        {"key": ["service"]},
        {"window": "30s"},
        {"time": "received"},
        {"lateness": "1 minute"},
        {"time": "received", "lateness": "1 minute"},
    ]
    found = names(*(rule(**more) for more in different))
    assert len(set(found)) == len(different), found


def test_a_lateness_that_is_written_out_as_the_usual_one_changes_no_name() -> None:
    assert names(rule(), rule(lateness="10s", time="time")) == ["alarms-reports-60s"]
