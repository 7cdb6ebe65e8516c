"""Templates of the library, and copying them to a user's folder."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.pipelines import library
from barnabas.pipelines.library.records import Generated
from barnabas.spark import PipelineError

LIBRARY = Path(library.__file__).parent
FOLDER = "{{ folder }}"
Generator = Callable[[int, int, float], Iterator[Generated]]


def template_names() -> list[str]:
    return sorted(path.parent.name for path in LIBRARY.glob("*/template"))


def copy_template(name: str, folder: Path) -> None:
    """Copy a template atomically to `folder`, which must be new or empty."""
    _require(name)
    target = folder.resolve()
    if target.exists() and any(target.iterdir()):
        raise PipelineError(f"{folder} is not empty; choose a new or empty folder for the pipeline.")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(LIBRARY / name / "template", aside, dirs_exist_ok=True, ignore=ignored)
        for path in aside.glob("*.yml"):
            # Absolute paths, as in Spark's own `init`: its server does not know the working directory.
            path.write_text(path.read_text().replace(FOLDER, str(target)))
        aside.chmod(0o755)
        aside.replace(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def generator_of(name: str) -> Generator:
    """Return the data generator of a template: `records(seed, start in milliseconds, records per second)`."""
    _require(name)
    found: Generator = importlib.import_module(f"barnabas.pipelines.library.{name}.generator").records
    return found


def _require(name: str) -> None:
    if name not in template_names():
        raise PipelineError(f"unknown template {name}; templates are {', '.join(template_names())}.")
