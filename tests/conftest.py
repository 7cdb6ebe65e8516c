"""What holds for every test: the `java` marker."""

import pytest

from tests.kafka_jars import in_ci, reason_java_is_missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("java") is None:
        return
    reason = reason_java_is_missing()
    if reason is None:
        return
    if in_ci():
        pytest.fail(f"CI must not skip this: {reason}", pytrace=False)
    pytest.skip(reason)
