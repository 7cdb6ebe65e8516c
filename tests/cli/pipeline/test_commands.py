"""`barnabas pipeline` commands that do not need Spark."""

from pathlib import Path

import pytest

from barnabas.pipelines.definitions.templates import template_names
from tests.support.cli import Cli


@pytest.mark.parametrize("template", template_names())
def test_a_template_becomes_a_folder_of_ones_own(cli: Cli, tmp_path: Path, template: str) -> None:
    folder = tmp_path / "mine"
    cli.ok("pipeline", "init", str(folder), "--template", template)
    assert f"file://{folder}/storage" in (folder / "spark-pipeline.yml").read_text()
    assert list((folder / "transformations").iterdir())
    assert "was never run here" in cli.ok("pipeline", "status", str(folder)).err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_with_something_in_it_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ended = cli("pipeline", "init", str(tmp_path))
    assert (ended.code, [path.name for path in tmp_path.iterdir()]) == (1, ["notes.txt"])
    assert "is not empty" in ended.err


def test_a_template_that_does_not_exist_names_those_that_do(cli: Cli, tmp_path: Path) -> None:
    ended = cli("pipeline", "init", str(tmp_path / "x"), "--template", "activty")
    assert ended.code == 1
    assert "templates are activity, enrich, logs, operations, recommend, warehouse" in ended.err


def test_broken_yaml_ends_a_run_before_spark_starts(cli: Cli, tmp_path: Path) -> None:
    cli.ok("pipeline", "init", str(tmp_path / "x"))
    (tmp_path / "x" / "barnabas.yml").write_text("quality: [\n")
    ended = cli("pipeline", "run", str(tmp_path / "x"))
    assert ended.code == 1
    assert "invalid YAML" in ended.err.splitlines()[0]
    assert not (tmp_path / "x" / "storage").exists()


def test_feeding_writes_the_generated_records(cli: Cli, tmp_path: Path) -> None:
    cli.ok("pipeline", "init", str(tmp_path / "x"), "-t", "enrich")
    settings = ("-X", f"barnabas.bootstrap.servers={cli.bootstrap}")
    output = cli.ok("pipeline", "feed", str(tmp_path / "x"), "--records", "300", *settings).err
    assert output == "Sent 300 records to shop.customers, shop.orders.\n"
    described = cli.ok("topics", "describe", "shop.orders", "shop.customers", "-o", "json").json
    assert sum(part["end"] for topic in described for part in topic["partitions"]) == 300
