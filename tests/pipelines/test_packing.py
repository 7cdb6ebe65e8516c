"""Output and errors of `barnabas pipeline pack`. Executors with the archive: tests/spark/test_standalone.py."""

import os
import subprocess
import sys
import tarfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from barnabas.pipelines.packing import (
    NodePython,
    default_python,
    pack,
    python_version,
    require_match,
    submit_lines,
)
from barnabas.spark import PipelineError

HERE = NodePython(default_python())
SMALL = {"msgspec", "barnabas"}
OTHERS = {one.name for one in distributions()} - SMALL


def test_an_unpacked_archive_is_an_environment_with_its_packages_and_the_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "clicks"
    folder.mkdir()
    (folder / "spark-pipeline.yml").write_text("name: clicks")
    archive = tmp_path / "env.tar.gz"
    assert pack(archive, HERE, folder, without=OTHERS) == sorted(SMALL)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "environment", filter="fully_trusted")
    assert (tmp_path / "environment" / "pipeline" / "spark-pipeline.yml").read_text() == "name: clicks"
    program = "import barnabas, msgspec; print(barnabas.__file__, msgspec.__file__)"
    done = subprocess.run(
        [tmp_path / "environment" / "bin" / "python", "-c", program],
        env={"PATH": os.defpath}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert all(path.startswith(f"{tmp_path}/environment/lib/") for path in done.stdout.split())


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (NodePython("/usr/bin/python3.9"), f"Python 3.9, and this environment is for Python {python_version()}"),
        (NodePython("/usr/bin/python3", "3.10.4"), "The cluster has Python 3.10"),
        (NodePython("/usr/bin/python3", machine="s390x"), "nodes are Linux on s390x"),
    ],
)  # fmt: skip
def test_another_python_or_processor_is_refused(tmp_path: Path, cluster: NodePython, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        pack(tmp_path / "env.tar.gz", cluster)
    assert not list(tmp_path.iterdir())


def test_this_python_and_processor_are_accepted() -> None:
    require_match(NodePython(sys.executable, python_version(), os.uname().machine))


def test_only_archives_that_spark_unpacks_with_links_are_written(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"'env\.zip' .example: env\.tar\.gz"):
        pack(tmp_path / "env.zip", HERE)


def test_the_commands_name_the_archive_and_the_python_in_it() -> None:
    archive, program = Path("env.tar.gz"), Path("env.py")
    link, run = submit_lines(archive, program, Path("clicks"), "spark://node:7077", "client")
    assert link.startswith(f"ln -sfn {sys.prefix} environment")
    assert run.startswith("PYSPARK_PYTHON=./environment/bin/python ")
    assert run.endswith("--archives 'env.tar.gz#environment' env.py pipeline run clicks")
    (run,) = submit_lines(archive, program, Path("clicks"), "yarn", "cluster")
    assert "--conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python" in run
    assert run.endswith("env.py pipeline run environment/pipeline")
