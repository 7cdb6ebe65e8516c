"""What is done by the clock, and when."""

from barnabas.clock import ManualClock
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.housekeeping import Every
from barnabas.testing.files import FaultyFileSystem
from tests.log.support import NOW, PARTITION, TOPIC_ID, append, managed, produced

HOUR = 3_600_000


def test_something_is_due_after_the_delay_and_then_once_per_interval() -> None:
    task = Every(100, 10)
    assert [now for now in range(320) if task.is_due(now)] == [10, 110, 210, 310]


def test_the_delay_is_never_longer_than_the_interval() -> None:
    task = Every(5, 1000)
    assert [now for now in range(14) if task.is_due(now)] == [5, 10]


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    task = Every(100, 100)
    task.is_due(1_000_000)
    assert task.is_due(1_000_100)
    assert [now for now in range(500, 720) if task.is_due(now)] == [500, 600, 700]


def test_silent_producers_are_forgotten_after_the_time_that_is_set_now() -> None:
    clock = ManualClock(NOW)
    settings = {"producer.id.expiration.check.interval.ms": "1000", "log.initial.task.delay.ms": "0"}
    logs = managed(FaultyFileSystem(), clock=clock, settings=settings)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, produced(7, 0, 0))
    logs.housekeeping(NOW + HOUR)
    assert len(log.producers) == 1
    logs.use_config(BrokerConfig.load({"producer.id.expiration.ms": str(HOUR)}))
    logs.housekeeping(NOW + 2 * HOUR)
    assert len(log.producers) == 0
