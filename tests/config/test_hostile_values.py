"""Hostile setting values from clients are rejected quickly with typed errors."""

from __future__ import annotations

import contextlib
import time

import pytest

from barnabas.common.errors import KafkaError
from barnabas.config.definitions import BY_SCOPE, TOPIC, Scope, suggestion
from barnabas.config.setting import ConfigError
from barnabas.config.validation import check_client_metrics_configs

LONGEST = 32_000  # approximate limit of a string on the wire
HOSTILE = {
    "spaces between": "x" + " \t" * (LONGEST // 2) + "x",
    "digits": "9" * LONGEST,
    "digits and a letter": "9" * LONGEST + "x",
    "commas": "," * LONGEST,
    "colons": ":1" * (LONGEST // 2),
    "pairs": "1:1, " * (LONGEST // 5),
    "addresses": "a:1 " * (LONGEST // 4),
    "a duration": "by_duration:PT" + "1." * (LONGEST // 2 - 20) + "S",
    "days": "by_duration:P" + "9" * (LONGEST - 20) + "D",
    "listeners": "A://[" + ":" * (LONGEST - 20) + "]:1",
}


@pytest.mark.parametrize("scope", list(BY_SCOPE), ids=lambda scope: scope.name)
@pytest.mark.parametrize("kind", list(HOSTILE))
def test_no_setting_takes_long_with_a_hostile_value(scope: Scope, kind: str) -> None:
    slow = []
    for name, setting in BY_SCOPE[scope].items():
        started = time.process_time()
        with contextlib.suppress(ConfigError):
            setting.parse(HOSTILE[kind])
        if time.process_time() - started > 0.5:  # before: 2 to 85 s
            slow.append(name)
    assert slow == []


@pytest.mark.parametrize("expression", ["(" * 5000, "a{1,99999999999}", "(?=a)", "[a-z]|" * 5000])
def test_a_hostile_pattern_of_client_metrics_is_refused(expression: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_CONFIG: Illegal client matching pattern"):
        check_client_metrics_configs({"match": f"client_id={expression}"})


def test_suggestions_for_an_unknown_name_are_cheap() -> None:
    """One request may name thousands."""
    started = time.process_time()
    for number in range(1000):
        suggestion(f"retention.number.{number}", TOPIC)
    assert time.process_time() - started < 2.0  # 0.05; before: 6 s
