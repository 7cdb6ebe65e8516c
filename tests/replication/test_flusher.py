from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.log.failures import DiskFull
from barnabas.log.flushing import FlushJob
from barnabas.log.log import Log
from barnabas.replication.flusher import Flusher
from tests.replication.conftest import NOW


class Later:
    """Work that runs on demand, in the test's thread."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((work, done))

    def finish_one(self, error: OSError | None = None) -> None:
        work, done = self.jobs.pop(0)
        if error is None:
            work()
        done(error)


def test_requests_that_arrive_during_a_flush_share_the_next_one(
    log: Log, batch: Callable[[], memoryview]
) -> None:
    later, answers = Later(), list[tuple[str, ErrorCode]]()
    flusher = Flusher(later, lambda log, error: None)
    for name in "abc":
        log.append_as_leader(batch(), 0, NOW)
        flusher.when_flushed(log, log.log_end_offset, lambda code, name=name: answers.append((name, code)))  # type: ignore[misc]
    assert len(later.jobs) == 1
    later.finish_one()
    assert answers == [("a", ErrorCode.NONE)]
    assert len(later.jobs) == 1
    later.finish_one()
    assert answers == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE), ("c", ErrorCode.NONE)]
    assert not later.jobs


def test_flushed_appends_are_answered_immediately(log: Log, batch: Callable[[], memoryview]) -> None:
    later, answers = Later(), list[ErrorCode]()
    log.append_as_leader(batch(), 0, NOW)
    log.flush()
    Flusher(later, lambda log, error: None).when_flushed(log, log.log_end_offset, answers.append)
    assert answers == [ErrorCode.NONE]
    assert not later.jobs


def test_a_callback_that_cuts_the_log_keeps_no_answer_from_the_others(
    log: Log, batch: Callable[[], memoryview]
) -> None:
    later, answers = Later(), list[ErrorCode]()
    flusher = Flusher(later, lambda log, error: None)
    for _ in range(2):
        log.append_as_leader(batch(), 0, NOW)
    flusher.when_flushed(log, 1, lambda code: log.truncate_to(0))
    flusher.when_flushed(log, 2, answers.append)
    later.finish_one()
    assert answers == [ErrorCode.NONE]


def test_a_flush_for_which_there_is_no_room_may_succeed_later(
    log: Log, batch: Callable[[], memoryview], monkeypatch: pytest.MonkeyPatch
) -> None:
    later, answers, broken = Later(), list[ErrorCode](), list[Log]()
    flusher = Flusher(later, lambda log, error: broken.append(log))
    log.append_as_leader(batch(), 0, NOW)

    def full(log: Log) -> FlushJob:
        raise DiskFull(log.folder, OSError(errno.ENOSPC, "No space left on device"))

    with monkeypatch.context() as patched:
        patched.setattr(Log, "prepare_flush", full)
        flusher.when_flushed(log, 1, answers.append)
    assert (answers, broken) == ([ErrorCode.KAFKA_STORAGE_ERROR], [])
    flusher.when_flushed(log, 1, answers.append)
    later.finish_one()
    assert answers[1:] == [ErrorCode.NONE]


def test_a_flush_that_fails_is_never_tried_again(log: Log, batch: Callable[[], memoryview]) -> None:
    later, answers, broken = Later(), list[ErrorCode](), list[Log]()
    flusher = Flusher(later, lambda log, error: broken.append(log))
    log.append_as_leader(batch(), 0, NOW)
    flusher.when_flushed(log, 1, answers.append)
    flusher.when_flushed(log, 2, answers.append)
    later.finish_one(OSError(5, "Input/output error"))
    assert answers == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]
    assert broken == [log]
    assert not later.jobs


def test_a_log_that_is_held_is_not_flushed_before_it_is_released(
    log: Log, batch: Callable[[], memoryview]
) -> None:
    later, answers, ready = Later(), list[ErrorCode](), list[bool]()
    flusher = Flusher(later, lambda log, error: None)
    log.append_as_leader(batch(), 0, NOW)
    flusher.when_flushed(log, log.log_end_offset, answers.append)
    flusher.hold(log, lambda: ready.append(True))
    log.append_as_leader(batch(), 0, NOW)
    flusher.when_flushed(log, log.log_end_offset, answers.append)
    assert not ready
    later.finish_one()
    assert (ready, answers, later.jobs) == ([True], [ErrorCode.NONE], [])
    flusher.release(log)
    later.finish_one()
    assert answers == [ErrorCode.NONE, ErrorCode.NONE]


def test_waiters_are_notified_of_a_deletion_without_blaming_the_disk(
    log: Log, batch: Callable[[], memoryview]
) -> None:
    later, answers, broken = Later(), list[ErrorCode](), list[Log]()
    flusher = Flusher(later, lambda log, error: broken.append(log))
    for _ in range(2):
        log.append_as_leader(batch(), 0, NOW)
        flusher.when_flushed(log, log.log_end_offset, answers.append)
    log.abandon()
    log.fs.rename(log.folder, f"{log.folder}-delete")
    later.finish_one()
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert (broken, later.jobs, log.disk.error) == ([], [], None)
