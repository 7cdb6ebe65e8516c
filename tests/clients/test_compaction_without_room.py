"""Compaction on a full disk waits for space and leaves the log valid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker import log_cleaner as cleaning
from barnabas.testing import EmbeddedBroker
from tests.clients.test_compaction import (
    COMPACTED,
    SETTINGS,
    churn,
    read,
    send,
    size,
    table,
    value_of,
    wait_until_compact,
)
from tests.support.disks import SmallDisk
from tests.support.waiting import until

KEYS, ROUNDS = 400, 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "disk")
    if not small.mount():
        pytest.skip("only root can mount a small disk")
    try:
        yield small
    finally:
        small.unmount()


@pytest.mark.parametrize(
    "leaving", [pytest.param(0, id="none for notes"), pytest.param(16_384, id="too little for a segment")]
)
def test_compaction_resumes_when_there_is_space_again(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, leaving: int
) -> None:
    monkeypatch.setattr(cleaning, "RETRY_WITHOUT_ROOM_MS", 500)
    settings = {**SETTINGS, "barnabas.disk.reserve.bytes": "0"}
    with EmbeddedBroker(settings, data_dir=disk.mount_point / "data") as broker:
        topic = broker.create_topic(configs=COMPACTED)
        [log] = [log for log in broker.broker.logs if log.topic_partition == (topic, 0)]
        uncleanable = broker.broker.log_cleaner.uncleanable
        later = int(1000 * time.time()) + cleaning.RETRY_MS
        uncleanable[log] = cleaning.Uncleanable("not before the disk is full", later)
        churn(broker, topic, rounds=ROUNDS, keys=KEYS)
        # Unflushed segments are not compacted, and a full disk accepts no more data.
        until(lambda: log.recovery_point >= log.active.base_offset, "that the sealed segments are synced")
        disk.fill(leaving)
        before = size(broker, topic)
        uncleanable.clear()
        until(lambda: "No space left" in _reasons(uncleanable), "the compaction that finds no room")
        expected = {b"key-%d" % key: value_of(key, ROUNDS - 1).encode() for key in range(KEYS)}
        assert table(read(broker, topic)) == expected
        assert not broker.broker.logs.offline_dirs
        disk.make_room()
        send(broker, topic, [("after", "x")])
        wait_until_compact(broker, topic)
        assert size(broker, topic) < before
        assert table(read(broker, topic)) == {**expected, b"after": b"x"}
        broker.restart()
        assert table(read(broker, topic)) == {**expected, b"after": b"x"}


def _reasons(uncleanable: Mapping[Any, cleaning.Uncleanable]) -> str:
    return " ".join(failure.reason for failure in list(uncleanable.values()))
