"""What holds for every test: the `java` marker, and that fast tests come first."""

from pathlib import Path

import pytest

from tests.kafka_jars import in_ci, reason_java_is_missing

TESTS = Path(__file__).parent
# Folders whose tests start brokers, JVMs and whole clusters, the longest last: a mistake is told of early.
SLOW_FOLDERS = (
    "cli",
    "client",
    "handlers",
    "groups",
    "queues",
    "clients",
    "cluster",
    "replication",
    "pipelines",
    "simulation",
    "chaos",
    "perf",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_slowness)


def _slowness(item: pytest.Item) -> int:
    folder = item.path.relative_to(TESTS).parts[0]
    return SLOW_FOLDERS.index(folder) + 1 if folder in SLOW_FOLDERS else 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("java") is None:
        return
    reason = reason_java_is_missing()
    if reason is None:
        return
    if in_ci():
        pytest.fail(f"CI must not skip this: {reason}", pytrace=False)
    pytest.skip(reason)
