"""The YAML files of a pipeline."""

from pathlib import Path

import pytest

from barnabas.pipelines.definitions.files import read_pipeline
from barnabas.spark.errors import PipelineError

SPEC = """
name: shop
storage: file:///tmp/shop
configuration: {shop.topic: orders}
libraries:
  - glob: {include: transformations/**}
"""


def write(folder: Path, settings: str | None = None, spec: str = SPEC) -> Path:
    (folder / "spark-pipeline.yml").write_text(spec)
    if settings is not None:
        (folder / "barnabas.yml").write_text(settings)
    return folder


def complaint(folder: Path) -> str:
    with pytest.raises(PipelineError) as caught:
        read_pipeline(folder)
    return str(caught.value)


def test_pipeline_without_a_settings_file_has_defaults(tmp_path: Path) -> None:
    files = read_pipeline(write(tmp_path))
    assert (files.name, files.libraries) == ("shop", ("transformations/**",))
    assert files.settings.quality == []
    assert files.bootstrap == "127.0.0.1:9092"


def test_names_in_our_file_are_filled_in_from_sparks_configuration(tmp_path: Path) -> None:
    write(tmp_path, "dead_letters: {topic: '${shop.topic}.dead'}")
    settings = read_pipeline(tmp_path, {"shop.topic": "carts"}).settings
    assert settings.dead_letters is not None
    assert settings.dead_letters.topic == "carts.dead"


def test_a_name_that_is_not_configured_is_named(tmp_path: Path) -> None:
    write(tmp_path, "dead_letters: {topic: '${shop.tpoic}'}")
    assert "${shop.tpoic} is not in the configuration" in complaint(tmp_path)


def test_folder_without_a_pipeline_is_reported_with_a_remedy(tmp_path: Path) -> None:
    assert "barnabas pipeline init" in complaint(tmp_path)


def test_invalid_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "quality:\n  - dataset: events\n   name: x\n")
    text = complaint(tmp_path)
    assert text.splitlines()[0].endswith(
        "barnabas.yml, line 3: invalid YAML: expected <block end>, but found '<block mapping start>'."
    )


def test_aliases_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    laughs = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]
    write(tmp_path, "\n".join(laughs))
    assert "barnabas.yml, line 2: aliases (*name) are not supported" in complaint(tmp_path)


def test_a_misspelt_word_gets_the_nearest_one(tmp_path: Path) -> None:
    write(tmp_path, "alarms: [{dataset: d, name: n, value: 'max(x)', windw: 1m, above: 1}]")
    assert "did you mean `window`?" in complaint(tmp_path)


def test_a_field_that_spark_does_not_know_is_refused_as_spark_would(tmp_path: Path) -> None:
    assert "unknown field `quality`" in complaint(write(tmp_path, spec=SPEC + "quality: []\n"))


def test_two_alarms_of_one_name_are_refused(tmp_path: Path) -> None:
    alarm = "{dataset: d, name: slow, value: 'max(x)', window: 1m, above: 1}"
    write(tmp_path, f"alarms: [{alarm}, {alarm}]")
    assert "2 alarms have the name 'slow'; names must be unique" in complaint(tmp_path)


@pytest.mark.parametrize(
    "address", ["localhost:8080", "file:///etc/passwd", "ftp://x/y", "http://10.0.0.7/alarms"]
)
def test_a_webhook_that_is_neither_https_nor_on_this_machine_is_refused(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, f"alarm_targets: {{webhook: '{address}'}}")
    assert f"the webhook '{address}' must " in complaint(tmp_path)
    monkeypatch.setenv("BARNABAS_WEBHOOK_ALLOWED_URLS", f"https://other,{address}")
    assert read_pipeline(tmp_path).settings.alarm_targets.webhook == address


def test_an_alarm_without_a_threshold_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "alarms: [{dataset: d, name: n, value: 'max(x)', window: 1m}]")
    assert "either `above` or `below`" in complaint(tmp_path)


def test_quarantine_without_a_topic_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "quality: [{dataset: d, name: n, condition: 'x', action: quarantine}]")
    assert "dead_letters" in complaint(tmp_path)


def test_an_action_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "quality: [{dataset: d, name: n, condition: 'x', action: explode}]")
    assert "explode" in complaint(tmp_path)


def test_an_iceberg_table_wants_a_time_to_be_partitioned_by(tmp_path: Path) -> None:
    write(tmp_path, "lake: {orders: {path: 'file:///tmp/lake', format: iceberg}}")
    assert "`hours` must name the time" in complaint(tmp_path)


def test_a_format_that_a_lake_does_not_have_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "lake: {orders: {path: 'file:///tmp/lake', format: icebreg}}")
    assert "icebreg" in complaint(tmp_path)
