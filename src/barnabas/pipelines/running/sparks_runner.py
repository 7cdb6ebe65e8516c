"""Spark's own runner on the same folder, with the Java and the Python that ours would use."""

from __future__ import annotations

import os
import subprocess
import sys

from barnabas.client.security.references import VARIABLE as REFERENCES
from barnabas.pipelines.definitions.files import SPEC_NAMES, PipelineFiles
from barnabas.pipelines.java import prepare_java


def run_with_spark(files: PipelineFiles, command: str) -> int:
    """`spark-pipelines run` in the pipeline's folder; its exit code. Settings of `--set` do not reach it."""
    prepare_java()
    spec = next(name for name in SPEC_NAMES if (files.folder / name).exists())
    environment = {
        REFERENCES: "env,file",
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    program = os.path.join(os.path.dirname(sys.executable), "spark-pipelines")
    return subprocess.run(
        [program, command, "--spec", spec], cwd=files.folder, env=environment, check=False
    ).returncode
