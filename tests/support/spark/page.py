"""Command lines of the page "On a cluster", run in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.support.programs import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "pipelines" / "cluster.md"
SPARK_HOME = Path(pyspark.__file__).parent
MARGIN = "    "
_LEFT_OUT = ("SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV", "HADOOP_", "YARN_")


def pasted(heading: str, block: int, replaced: Mapping[str, str]) -> str:
    """A block of command lines below a heading, counted from 0, with the reader's own names."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = [text for text in section.strip("\n").split("\n\n") if text.startswith(MARGIN)]
    lines = "\n".join(line.removeprefix(MARGIN) for line in blocks[block].splitlines())
    for name, value in replaced.items():
        assert name in lines, f"{name} is not in the lines of {heading}:\n{lines}"
        lines = lines.replace(name, value)
    return lines


def run_pasted(
    lines: str,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """In a shell that has the virtual environment activated; `settings` are in spark-defaults.conf."""
    configuration = folder / "conf"
    configuration.mkdir(exist_ok=True)
    text = "".join(f"{name} {value}\n" for name, value in (settings or {}).items())
    (configuration / "spark-defaults.conf").write_text(text)
    chosen = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    chosen["PATH"] = f"{Path(sys.executable).parent}:{chosen['PATH']}"
    chosen |= {"SPARK_CONF_DIR": str(configuration), "SPARK_LOCAL_IP": "127.0.0.1", **(environment or {})}
    return subprocess.run(
        ["sh", "-eu", "-c", lines],
        cwd=folder, env=chosen, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
