"""A pipeline folder run by our runner on files, without a broker."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.running import runner as runner_module
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.pipelines.running.measures import HOTTEST, MEASURES, MakeRunner, add_file, heat, rows
from tests.support.programs import free_port
from tests.support.spark.reading import read

KNOWN = """
CREATE TEMPORARY VIEW known AS SELECT 'a' AS machine, 5.0D AS heat, current_timestamp() AS time;
"""


def test_tables_come_before_the_views_that_read_them(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, "b", 7), (3, "a", 9), (4, "b", -1)))
    runner = make()
    runner.run_once()
    assert heat(runner) == {"a": 9, "b": 7}
    assert runner.flows["warm"].batch == 0


def test_run_continues_where_the_previous_one_ended(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    make().run_once()
    add_file(tmp_path, "2.json", rows((2, "a", 6), (3, "c", 1)))
    second = make()
    second.run_once()
    assert heat(second) == {"a": 6, "c": 1}
    assert second.session.table("warm").count() == 3


def test_a_pipeline_that_runs_is_not_started_a_second_time(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    first, second = make(), make()
    first.start()
    try:
        sentence = f"runs already, in process {os.getpid()}: .* Stop that one first"
        for run in (second.start, second.run_once):
            with pytest.raises(PipelineError, match=sentence):
                run()
    finally:
        first.close()
    second.run_once()
    assert heat(second) == {"a": 5}
    first.run_once()


def test_rules_count_drop_and_set_a_threshold(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, None, 7), (3, "b", 700)))
    runner = make(
        "quality:\n"
        "  - {dataset: measures, name: has a machine, condition: machine IS NOT NULL, action: drop}\n"
        "  - {dataset: measures, name: is plausible, condition: heat < 200}\n"
    )
    runner.run_once()
    assert heat(runner) == {"a": 5, "b": 700}
    assert runner.flows["warm"].broken == {"measures: has a machine": 1, "measures: is plausible": 1}


def test_a_rule_that_fails_stops_the_pipeline_with_its_name(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, None, 7)))
    runner = make(
        "quality: [{dataset: measures, name: machines, condition: machine IS NOT NULL, action: fail}]"
    )
    with pytest.raises(PipelineError) as caught:
        runner.run_once()
    assert str(caught.value).splitlines()[0].startswith("The flow warm has failed")
    assert "The quality rule 'machines' of measures does not hold" in str(caught.value)


ALARM = """
alarms:
  - {dataset: warm, name: hot, value: max(heat), above: 80, window: 10s, for: 20s, key: [machine], lateness: 0s}
"""


def test_alarms_fire_and_resolve_over_runs(make: MakeRunner, tmp_path: Path) -> None:
    received: list[AlarmEvent] = []
    add_file(tmp_path, "1.json", rows((1, "a", 90), (2, "b", 20), (11, "a", 95), (25, "b", 20)))
    make(ALARM, alarm_listener=received.extend).run_once()
    assert [(event.key, event.status, event.value, event.at) for event in received] == [
        ("a", "fired", 95, 20)
    ]
    add_file(tmp_path, "2.json", rows((31, "a", 30), (55, "b", 20)))
    second = make(ALARM, alarm_listener=received.extend)
    assert second.firing_alarms() == ["hot of a"]
    second.run_once()
    assert second.firing_alarms() == []
    assert [(event.status, event.at) for event in received] == [("fired", 20), ("resolved", 40)]
    assert received[0].id == received[1].id


def test_alarms_whose_topic_was_away_are_written_by_the_next_run(
    make: MakeRunner,
    tmp_path: Path,
    spark: SparkSession,
    broker: EmbeddedBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark runs the batch again, and its note has the events."""
    monkeypatch.setattr(runner_module, "AlarmDelivery", partial(AlarmDelivery, topic_seconds=0.5))
    topic = broker.create_topic()
    settings = f"{ALARM}alarm_targets: {{topic: {topic}}}\n"
    add_file(tmp_path, "1.json", rows((1, "a", 90), (11, "a", 95), (25, "b", 20)))
    with pytest.raises(PipelineError) as caught:
        make(settings, bootstrap=f"127.0.0.1:{free_port()}").run_once()
    assert f"1 alarms could not be written to the topic {topic}" in str(caught.value)
    make(settings, bootstrap=broker.bootstrap_servers).run_once()
    found = read(spark, broker.bootstrap_servers, topic).select("key").collect()
    assert [bytes(row["key"]) for row in found] == [b"hot/a/0.000"]


def test_notes_of_alarms_go_with_the_checkpoint_of_their_query(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 90), (11, "a", 95), (25, "b", 20)))
    make(ALARM).run_once()
    shutil.rmtree(tmp_path / "storage/barnabas/checkpoints/alarms-warm-machine-10s-late-0s")
    received: list[AlarmEvent] = []
    again = make(ALARM.replace("above: 80", "above: 800"), alarm_listener=received.extend)
    assert again.firing_alarms() == []
    again.run_once()
    assert received == []


@pytest.mark.parametrize(
    ("python", "sentence", "cause"),
    [
        ("import nothing_like_it\n", "measures.py could not be loaded, line 1.", "nothing_like_it"),
        (MEASURES.replace('"heat > 0"', '"heet > 0"'), "The definition of warm", "heet"),
        (MEASURES.replace("def warm", "def measures"), "measures is defined twice", ""),
        (MEASURES.replace('table("measures")', 'table("warm")'), "a dataset cannot be made from itself", ""),
        (MEASURES.replace('table("measures")', 'table("mesures")'), "The definition of warm", "mesures"),
    ],
)
def test_invalid_definition_is_reported_before_anything_is_written(
    make: MakeRunner, tmp_path: Path, python: str, sentence: str, cause: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        make(python=python)
    assert sentence in str(caught.value).splitlines()[0]
    assert cause in str(caught.value)
    assert not (tmp_path / "storage").exists()


@pytest.mark.parametrize("dataset", ["hottest", "known"])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "{dead_letters: {topic: t}, quality: [{dataset: DATASET, name: n, condition: 'true', action: quarantine}]}",
            "quarantine them in the streaming table that it reads, or use `drop`",
        ),
        (
            "alarms: [{dataset: DATASET, name: hot, value: max(heat), above: 80, window: 10s}]",
            "The alarm 'hot' watches DATASET, which is recomputed each time",
        ),
        ("lake: {DATASET: {path: 'file:///tmp/no-such-lake'}}", "or remove it from `lake`"),
    ],
)
def test_complete_output_has_no_dead_letters_alarms_or_lake(
    make: MakeRunner, tmp_path: Path, settings: str, sentence: str, dataset: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        make(settings.replace("DATASET", dataset), sql=HOTTEST + KNOWN)
    assert sentence.replace("DATASET", dataset) in str(caught.value)
    assert not (tmp_path / "storage").exists()


def test_a_rule_for_a_dataset_that_is_not_there_is_refused(make: MakeRunner) -> None:
    with pytest.raises(PipelineError, match="The quality rule for mesures has no dataset"):
        make("quality: [{dataset: mesures, name: n, condition: 'true'}]")
