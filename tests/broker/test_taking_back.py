"""Logs are rebuilt from the object store while their disk is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.tiering import restored_partitions as beginnings
from barnabas.broker.tiering.leader_log import take_back
from barnabas.broker.tiering.no_tiering import unfinished
from barnabas.common.clock import ManualClock
from barnabas.common.types import uuid_to_text
from barnabas.log.log import Log
from barnabas.log.tiering import rebuilding
from barnabas.records.batch import LOG_OVERHEAD, stamp
from barnabas.testing.files import FaultyFileSystem
from barnabas.tiering.restoring.state import SavedGroupOffset
from barnabas.tiering.stores.store import StoreError
from tests.log.test_pending import FULL, ManualThread, slowed_down
from tests.support.builders.logs import NOW, TOPIC_ID, batch, new_log, read_all

COUNT = 6


class RemoteCopy:
    """Batches of one record each."""

    async def bootstrap(self) -> Any:
        return SimpleNamespace(tiered_end=COUNT, open_transactions=())

    async def all_batches(self) -> AsyncIterator[bytes]:
        for offset in range(COUNT):
            data = batch(b"value-%d" % offset)
            stamp(data, 0, offset, len(data) - LOG_OVERHEAD, 0)
            yield bytes(data)


async def restore(log: Log, thread: ManualThread) -> None:
    remote: Any = RemoteCopy()
    restoring = asyncio.ensure_future(take_back(log, remote, 1, ManualClock(NOW), lambda: True))
    while not restoring.done():
        await asyncio.sleep(0)
        thread.finish()
    await restoring


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def log(fs: FaultyFileSystem) -> Log:
    return new_log("/data/orders-0", fs=fs)


def test_a_slow_disk_gets_all_records(log: Log) -> None:
    asyncio.run(restore(log, slowed_down(log)))
    assert [offset for offset, _ in read_all(log)] == list(range(COUNT))
    assert not rebuilding.is_unfinished(log)


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_a_log_with_a_gap_is_not_finished(fs: FaultyFileSystem, log: Log, number: int) -> None:
    thread = slowed_down(log)
    fs.fail_at(number, FULL, "append", suffix=".log")
    with pytest.raises(StoreError):
        asyncio.run(restore(log, thread))
    assert rebuilding.is_unfinished(log)
    asyncio.run(restore(log, thread))
    assert [offset for offset, _ in read_all(log)] == list(range(COUNT))


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_committed_offsets_are_written_as_a_whole(
    fs: FaultyFileSystem, log: Log, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginnings, "RECORDS_IN_BATCH", 1)
    thread = slowed_down(log)
    offsets = [
        SavedGroupOffset("readers", "orders", each, each, -1, "", NOW, -1, uuid_to_text(TOPIC_ID))
        for each in range(COUNT)
    ]

    async def write() -> None:
        writing = asyncio.ensure_future(beginnings.write_offsets(log, offsets, 0, NOW))
        while not writing.done():
            await asyncio.sleep(0)
            thread.finish()
        await writing

    fs.fail_at(number, FULL, "append", suffix=".log")
    with pytest.raises(StoreError):
        asyncio.run(write())
    assert fs.exists(unfinished(log))
    asyncio.run(write())
    assert len(read_all(log)) == log.log_end_offset == COUNT
