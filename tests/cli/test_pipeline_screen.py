"""What a run of a pipeline leaves for `barnabas pipeline status`, without a Spark."""

from pathlib import Path

from barnabas.cli.pipeline_run import _Screen
from barnabas.pipelines.definitions.files import read_pipeline
from barnabas.pipelines.running.status import StatusFile

SPEC = "{name: shop, storage: 'file:///tmp/shop', libraries: [{glob: {include: transformations/**}}]}"


def test_status_names_what_fires_from_the_first_moment_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    firing = ["slow requests of cart"]
    with _Screen(read_pipeline(tmp_path)) as screen:
        screen.firing = lambda: list(firing)  # what the runner has found in its notes
        screen.show([])
        begun = StatusFile(tmp_path).read()
        firing.clear()
        screen.end("stopped")
    ended = StatusFile(tmp_path).read()
    assert begun is not None
    assert ended is not None
    assert (begun.state, begun.alarms) == ("running", ["slow requests of cart"])
    assert (ended.state, ended.alarms) == ("stopped", [])
