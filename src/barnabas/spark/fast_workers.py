"""Lets Spark's Python workers start in a quarter of the time.

Spark puts its own `pyspark.zip` first on the path of its workers. Python keeps no bytecode for what comes out of a zip,
so that every worker compiles all of PySpark: 1.0 s of CPU instead of 0.24, and every stream starts several of them.
The same files lie in site-packages, if PySpark came with pip. Spark gives up on a worker that is not there after ten
seconds, which a machine with much to do needs for it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path

from fastcrc.crc32 import iscsi as crc32c

LINKED = ("bin", "jars", "sbin", "data")


def prepare_workers() -> None:
    """Give Spark a home without the zip, and its workers a place for bytecode. For the processes that we start."""
    if "SPARK_HOME" in os.environ:
        return  # the user has chosen a Spark, and how its workers find PySpark
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return
    installed = Path(found.origin).parent
    if not (installed / "jars").is_dir():
        return  # a Spark Connect client: there is no JVM to start here
    os.environ["SPARK_HOME"] = str(_home_for(installed))
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        # Containers set it to keep images small; here it would cost each worker what is said above.
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache_folder() / "bytecode"))


def _home_for(installed: Path) -> Path:
    """A folder of links to the Spark of pip, all but its `python` folder."""
    from pyspark.version import __version__

    home = cache_folder() / f"spark-{__version__}-{crc32c(str(installed).encode()):08x}"
    home.mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        link = home / name
        if (installed / name).exists() and not link.is_symlink():
            with contextlib.suppress(FileExistsError):  # another process was faster
                link.symlink_to(installed / name)
    return home


def cache_folder() -> Path:
    """Where this user keeps what is made once and used often."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
