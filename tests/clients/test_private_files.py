"""Files of a broker are not readable by other users of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.common.files import LocalFileSystem
from barnabas.log import names
from barnabas.testing import EmbeddedBroker
from tests.clients.test_compaction import COMPACTED, SETTINGS, send
from tests.support.waiting import until

OF_OTHERS = 0o077


@pytest.fixture(autouse=True)
def _the_usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = ((path, status_of(path)) for path in (folder, *folder.rglob("*")))
    return [
        f"{path}: {status.st_mode & 0o777:o}"
        for path, status in found
        if status and status.st_mode & OF_OTHERS
    ]


def status_of(path: Path) -> os.stat_result | None:
    """None when the broker has removed the file meanwhile."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def test_nothing_that_a_broker_writes_is_readable_for_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with EmbeddedBroker(SETTINGS, data_dir=data) as broker:
        broker.create_topic("t", configs=COMPACTED)
        send(broker, "t", [(f"key {number % 10}", "x" * 100) for number in range(2000)])
        folder = data / "t-0"
        before = size_of(folder)
        until(lambda: size_of(folder) < before / 2, "the worker has compacted it")
        assert open_to_others(data) == []
        broker.restart()
        send(broker, "t", [("key", "more")])
        assert open_to_others(data) == []
    assert open_to_others(data) == []
    assert len(list(data.rglob("*"))) > 10


def size_of(folder: Path) -> int:
    found = map(status_of, folder.glob(f"*{names.LOG}"))
    return sum(status.st_size for status in found if status is not None)


def test_existing_nodes_keep_their_permissions(tmp_path: Path) -> None:
    """A data folder of Apache Kafka, or one shared by its owner's choice."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    segment = data / "00000000000000000000.log"
    segment.write_bytes(b"as before")
    files = LocalFileSystem()
    files.make_folders(str(data))
    files.open(str(segment), create=True).close()
    assert (data.stat().st_mode & 0o777, segment.stat().st_mode & 0o777) == (0o755, 0o644)
