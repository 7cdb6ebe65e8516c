"""Evaluation of several rules, and recording and sending per batch."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.alarms.state import AlarmEvent, PipelineAlarm, WindowValue
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.alarms.watching import MAX_UNDELIVERED, AlarmBatch, bounded, grouped, together
from barnabas.pipelines.definitions.settings import AlarmRule, AlarmTargets
from barnabas.spark.batch_log import BatchLog
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder
from tests.pipelines.alarms.flaky_webhook import FlakyWebhook, flaky_webhook
from tests.support.programs import free_port


def rule(name: str = "slow", **more: Any) -> AlarmRule:
    settings: dict[str, Any] = {"dataset": "reports", "value": "max(x)", "window": "1 minute", "above": 10}
    return AlarmRule(**{**settings, "name": name, **more})


def names(*rules: AlarmRule) -> list[str]:
    return [group.name for group in grouped(rules)]


def test_rules_over_the_same_windows_are_one_query() -> None:
    groups = grouped([rule("slow", key=["service"]), rule("failing", key=["service"], window="60s", above=1)])
    assert [(group.name, [each.name for each in group.rules]) for group in groups] == [
        ("alarms-reports-service-60s", ["slow", "failing"])
    ]


def test_query_names_contain_the_distinguishing_parts_of_rules() -> None:
    different: list[dict[str, Any]] = [
        {},
        {"dataset": "others"},
        {"key": ["service"]},
        {"window": "30s"},
        {"time": "received"},
        {"lateness": "1 minute"},
        {"time": "received", "lateness": "1 minute"},
    ]
    found = names(*(rule(**more) for more in different))
    assert len(set(found)) == len(different), found


def test_a_lateness_that_is_written_out_as_the_usual_one_changes_no_name() -> None:
    assert names(rule(), rule(lateness="10s", time="time")) == ["alarms-reports-60s"]


FIRED, RESOLVED = PipelineAlarm(rule(key=["service"])).take(
    [WindowValue("cart", 0.0, 60.0, 11.0), WindowValue("cart", 60.0, 120.0, 1.0)]
)
MakeWatch = Callable[..., AlarmBatch]
Minute = Callable[[int, float], DataFrame]


def ids(*events: AlarmEvent) -> list[tuple[str, str]]:
    return [(event.id, event.status) for event in events]


@pytest.fixture
def webhook() -> Iterator[FlakyWebhook]:
    with flaky_webhook() as server:
        yield server


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path) -> MakeWatch:
    """A watch as a start of the pipeline makes it, with the notes of those before it."""

    def start(bootstrap: str = "127.0.0.1:1", listener: Any = None, **targets: Any) -> AlarmBatch:
        log = BatchLog(HadoopFolder(spark, f"file://{tmp_path}/notes"))
        chosen = AlarmTargets(**{"log": False, **targets})
        response = AlarmDelivery(chosen, bootstrap, listener, webhook_seconds=0.2, topic_seconds=0.5)
        return AlarmBatch([rule(key=["service"])], log, response)

    return start


@pytest.fixture
def minute(spark: SparkSession) -> Minute:
    """The value of one closed window, as Spark has computed it."""
    schema = "key STRING, start BIGINT, end BIGINT, value_0 DOUBLE"

    def frame(number: int, value: float) -> DataFrame:
        start = number * 60_000_000
        return spark.createDataFrame([("cart", start, start + 60_000_000, value)], schema)

    return frame


def test_notifications_rejected_by_a_webhook_are_sent_with_the_next_batch(
    make: MakeWatch, minute: Minute, webhook: FlakyWebhook
) -> None:
    webhook.answers = [503] * 100
    watch = make(webhook=webhook.url)
    watch(minute(0, 11.0), 0)
    webhook.answers = []
    assert webhook.heard == []
    watch(minute(1, 1.0), 1)
    watch(minute(2, 1.0), 2)
    assert webhook.told == [ids(FIRED, RESOLVED)]


def test_notifications_rejected_by_a_webhook_survive_a_restart(
    make: MakeWatch, minute: Minute, webhook: FlakyWebhook
) -> None:
    make(webhook=f"http://127.0.0.1:{free_port()}/alarms")(minute(0, 11.0), 0)
    make(webhook=webhook.url)(minute(1, 12.0), 1)
    make(webhook=webhook.url)(minute(2, 12.0), 2)
    assert webhook.told == [ids(FIRED)]


def test_a_batch_whose_topic_was_away_sends_the_same_events_when_it_is_run_again(
    make: MakeWatch, minute: Minute, webhook: FlakyWebhook
) -> None:
    away = make(f"127.0.0.1:{free_port()}", topic="alarms", webhook=webhook.url)
    with pytest.raises(PipelineError, match="1 alarms could not be written"):
        away(minute(0, 11.0), 0)
    received: list[AlarmEvent] = []
    make(listener=received.extend, webhook=webhook.url)(minute(0, 11.0), 0)
    assert received == [FIRED]
    assert webhook.told == [ids(FIRED), ids(FIRED)]


def test_alarms_firing_before_a_restart_are_known_before_the_first_batch(
    make: MakeWatch, minute: Minute
) -> None:
    watch = make()
    assert watch.firing == []
    watch(minute(0, 11.0), 0)
    assert watch.firing == make().firing == ["slow of cart"]
    again = make()
    again(minute(1, 1.0), 1)
    assert again.firing == make().firing == []


def test_the_note_of_a_batch_that_is_run_again_repeats_no_event() -> None:
    assert together([FIRED], [FIRED, RESOLVED]) == [FIRED, RESOLVED]


def test_webhook_queue_is_bounded_and_drops_the_oldest() -> None:
    assert bounded([FIRED] + [RESOLVED] * MAX_UNDELIVERED) == [RESOLVED] * MAX_UNDELIVERED
