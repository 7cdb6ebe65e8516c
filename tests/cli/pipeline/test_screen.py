"""Status file of a run, as read by `barnabas pipeline status`, without Spark."""

from pathlib import Path

from typer.testing import CliRunner

from barnabas.cli.main import make_app
from barnabas.cli.pipeline.run import _StatusScreen, last_words
from barnabas.pipelines.definitions.files import read_pipeline
from barnabas.pipelines.running.progress import FlowProgress
from barnabas.pipelines.running.status import StatusFile

SPEC = "{name: shop, storage: 'file:///tmp/shop', libraries: [{glob: {include: transformations/**}}]}"


def test_status_names_a_firing_alarm_from_start_to_end(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    firing = ["slow requests of cart"]
    with _StatusScreen(read_pipeline(tmp_path)) as screen:
        screen.firing = lambda: list(firing)  # the runner's findings in its notes
        screen.show([])
        begun = StatusFile(tmp_path).read()
        firing.clear()
        screen.end("stopped")
    ended = StatusFile(tmp_path).read()
    assert begun is not None
    assert ended is not None
    assert (begun.state, begun.alarms) == ("running", ["slow requests of cart"])
    assert (ended.state, ended.alarms) == ("stopped", [])


def test_status_shows_late_records(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    with _StatusScreen(read_pipeline(tmp_path)) as screen:
        screen.show([FlowProgress("traffic", rows=1_500, late=37)])
        screen.end("stopped")
    shown = CliRunner().invoke(make_app(), ["pipeline", "status", str(tmp_path)]).output
    assert [line.split()[-1] for line in shown.splitlines()[:2]] == ["LATE", "37"]


def test_run_reports_skipped_tests_at_its_end() -> None:
    flows = [FlowProgress("traffic", rows=1_500, late=37), FlowProgress("pages", rows=900)]
    assert last_words("shop", flows) == [
        "shop: 2 flows are done, the largest with 1,500 rows.",
        "Rows left out because their windows were closed already: 37 of traffic.",
    ]
    assert len(last_words("shop", flows[1:])) == 1
