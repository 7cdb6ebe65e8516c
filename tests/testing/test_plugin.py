import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker

A_TEST_FILE = """
import urllib.request

import pytest

seen = set()

@pytest.fixture(scope="session")
def barnabas_settings():
    return {"num.partitions": "3"}

def test_one(barnabas, barnabas_topic):
    seen.add((barnabas.bootstrap_servers, barnabas_topic))
    assert barnabas_topic.startswith("test_one-")

@pytest.mark.barnabas_topic(partitions=2, configs={"retention.ms": "1000"})
def test_two(barnabas, barnabas_topic):
    seen.add((barnabas.bootstrap_servers, barnabas_topic))
    assert (barnabas.data_dir / f"{barnabas_topic}-1").is_dir()

def test_a_registry_is_there(barnabas_registry):
    with urllib.request.urlopen(barnabas_registry + "/subjects") as answer:
        assert answer.read() == b"[]"

def test_both_had_one_broker_and_a_topic_each():
    assert len({servers for servers, _ in seen}) == 1
    assert len({topic for _, topic in seen}) == 2
"""


def test_fixtures_give_one_broker_and_a_fresh_topic_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(A_TEST_FILE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        str(tmp_path),
    ]
    if not _is_installed():
        command += ["-p", "barnabas.testing.plugin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import barnabas.testing.plugin; "
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    version = {"barnabas.common", "barnabas.common.version"}
    assert set(done.stdout.split()) - version == {"barnabas", "barnabas.testing", "barnabas.testing.plugin"}


@pytest.mark.usefixtures("barnabas_topic")
def test_our_own_tests_have_the_fixtures_too(barnabas: EmbeddedBroker) -> None:
    assert barnabas.running


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == "barnabas.testing.plugin" for entry in entry_points(group="pytest11"))
