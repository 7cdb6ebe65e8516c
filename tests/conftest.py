"""Shared setup of all tests: the `java` marker, test order, and distribution over processes."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from barnabas.common.safe_logging import line_limit
from tests.support.kafka.jars import reason_java_is_missing
from tests.support.programs import in_ci

# A shell makes background processes ignore Ctrl-C, which children inherit; tests need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example depends on the load of the machine only.
settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import Scheduling

    from tests.support.kafka.secured import SecuredKafka

TESTS = Path(__file__).parent
# Folders whose tests start brokers, JVMs and clusters, run after all others. Those of Spark come first among them,
# because a single process runs all of them.
SLOW_FOLDERS = (
    "pipelines",
    "spark",
    "connect",
    "simulation",
    "clients",
    "cluster",
    "replication",
    "share",
    "chaos",  # takes minutes in one file: not last
    "groups",
    "cli",
    "client",
    "handlers",
    "perf",
)
# A Spark session takes seconds to start, and its own runner of pipelines listens on one port: one process has it all.
WITH_SPARK = (
    "tests/pipelines/",
    "tests/spark/",
    "tests/connect/",
    "tests/examples/",
    "tests/cli/pipeline/",
    "tests/services/ingest/files/test_pipeline.py",
    "tests/services/ingest/host/test_agent.py",
)


@pytest.fixture(autouse=True)
def _a_log_of_its_own() -> None:
    """Isolate log lines of tests from each other."""
    line_limit.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_slowness)


def _slowness(item: pytest.Item) -> int:
    folder = item.path.relative_to(TESTS).parts[0]
    return SLOW_FOLDERS.index(folder) + 1 if folder in SLOW_FOLDERS else 0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """One line, behind all others, about tests that would run if something were installed."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
    commands = [found for reason in reasons if (found := re.search(r"`make ([a-z-]+)`", reason))]
    if commands:
        targets = " ".join(sorted({found[1] for found in commands}))
        terminalreporter.write_line(
            f"{len(commands)} tests were skipped because programs are missing here; to run them: make {targets}"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """`make test` runs three processes: a process that is done takes the next file, in the order above."""
    from xdist.scheduler import LoadScopeScheduling

    class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "spark" if file.startswith(WITH_SPARK) else file

    config.option.loadscopereorder = False  # it would begin with the files that have the most tests
    return FileScheduling(config, log)


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Apache Kafka with TLS and SASL: for the client, and for Spark."""
    from tests.support.kafka.secured import SecuredKafka

    with SecuredKafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.support.spark.session import spark_session

    yield from spark_session(tmp_path_factory.mktemp("warehouse"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("java") is None:
        return
    reason = reason_java_is_missing()
    if reason is None:
        return
    if in_ci():
        pytest.fail(f"CI must not skip this: {reason}", pytrace=False)
    pytest.skip(reason)
