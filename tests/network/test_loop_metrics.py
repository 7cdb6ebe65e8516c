"""Metrics of the event loop."""

from __future__ import annotations

import asyncio

from barnabas.metrics.registry import Registry
from barnabas.network import socket_metrics as loop
from barnabas.network.socket_metrics import LoopMonitor
from tests.support.server import scenario
from tests.support.waiting import async_until


def test_lag_is_counted_and_the_longest_of_the_last_minute_is_shown() -> None:
    registry = Registry()
    monitor = LoopMonitor(registry)
    for lag in (0.0, -0.001, 0.3, 0.01):
        monitor.note(lag)
    values = registry.snapshot()
    assert values["barnabas_loop_lag_max_seconds"] == 0.3
    assert values["barnabas_loop_lag_seconds_bucket{le=0.25}"] == 3
    assert values["barnabas_loop_lag_seconds_count"] == 4


@scenario
async def test_a_running_loop_is_measured_again_and_again() -> None:
    registry = Registry()
    monitor = LoopMonitor(registry)
    monitor.start()
    await async_until(lambda: registry.snapshot()["barnabas_loop_lag_seconds_count"] >= 2)
    monitor.stop()
    idle = registry.snapshot()["kafka_network_socketserver_networkprocessoravgidle_percent"]
    assert 0.0 <= idle <= 1.0
    measured = registry.snapshot()["barnabas_loop_lag_seconds_count"]
    await asyncio.sleep(loop.INTERVAL * 1.5)
    assert registry.snapshot()["barnabas_loop_lag_seconds_count"] == measured
