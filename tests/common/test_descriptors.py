"""Connections never use the last file descriptor."""

from __future__ import annotations

import errno
import resource

import pytest

from barnabas.common.descriptors import SPARE, raise_limit, room_for_connections, room_for_segments
from barnabas.config.broker import BrokerConfig
from barnabas.log.failures import DISK_FULL, DiskFull
from barnabas.network.limits import limits_from


def allow(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    """Simulate a limit of open files; return the requested limits."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: calls.append(limits))
    return calls


def test_connections_and_segments_leave_some_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, 1024, 1024)
    assert room_for_connections() + room_for_segments() + SPARE == 1024
    assert limits_from(BrokerConfig.load({})).connections == room_for_connections()
    assert limits_from(BrokerConfig.load({"max.connections": "5"})).connections == 5


def test_broker_uses_the_limits_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert allow(monkeypatch, 1024, 4096) == []
    calls = allow(monkeypatch, 1024, 4096)
    raise_limit()
    assert calls == [(4096, 4096)]
    calls = allow(monkeypatch, 4096, 4096)
    raise_limit()
    assert calls == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_running_out_of_descriptors_is_no_failure_of_the_disk(number: int) -> None:
    assert number in DISK_FULL
    assert "ulimit -n" in str(DiskFull("/data", OSError(number, "Too many open files")))
