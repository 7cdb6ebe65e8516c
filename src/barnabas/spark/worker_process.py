"""Setup of Spark's Python workers: memory that is kept between batches, fast starts, and a quiet exit.

A task takes and frees some MiB for every fetch (`barnabas.common.allocation`).

PySpark runs the garbage collector after each task of a worker. It traverses the imported modules: 170,000 objects with
numba and pandas, which takes 25 to 40 ms each time, as long as a whole small batch.

Spark ends a worker that was idle for a minute by closing its socket. PySpark's worker then reports the end of the
socket to the socket, and leaves a BrokenPipeError with its traceback in the user's terminal, a minute after everything
succeeded.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from socket import socket
from typing import Any

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.allocation import keep_freed_memory

# -- Start Spark's Python workers in a quarter of the time ---------------------------------------------

LINKED = ("bin", "jars", "sbin", "data", "conf")


def prepare_workers() -> None:
    """Give Spark a home without the zip, and its workers a place for bytecode. For the processes that we start."""
    if "SPARK_HOME" in os.environ:
        return  # the user has chosen a Spark, and how its workers find PySpark
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return
    installed = Path(found.origin).parent
    if not (installed / "jars").is_dir():
        return  # a Spark Connect client: no JVM to start here
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
    """Cache folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"


# -- Start Spark's JVM in half the time ----------------------------------------------------------------

# Java logs about the archive on standard output, which is ours.
SILENT = "-Xlog:cds*=off"


def archive_options() -> list[str]:
    """JVM options for this process; empty without an archive."""
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", SILENT] if archive is not None and archive.exists() else []


def recording_options(archive: Path) -> list[str]:
    """With these the JVM writes the archive at exit, which takes some seconds."""
    return [f"-XX:ArchiveClassesAtExit={archive}", SILENT]


def archive_path() -> Path | None:
    """One per Spark and Java version; None without Java."""
    java = _java()
    if java is None:
        return None
    from pyspark.version import __version__

    found = java.stat()
    named = f"{os.environ.get('SPARK_HOME')} {java} {found.st_size} {found.st_mtime_ns}"
    return cache_folder() / f"spark-{__version__}-{crc32c(named.encode()):08x}.jsa"


def shares_classes() -> bool:
    """True if this Java has the default class archive that ours is based on. Those from pip lack it."""
    java = _java()
    if java is None:
        return False
    tried = subprocess.run([java, "-Xshare:on", "-version"], capture_output=True, timeout=60, check=False)
    return tried.returncode == 0


def quoted(options: list[str]) -> str:
    """As one setting of Spark, which takes them apart like a shell."""
    return " ".join(map(shlex.quote, options))


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    return None if found is None else Path(found).resolve()


DAEMON = "pyspark.daemon"  # what Spark forks its workers from; some of them whatever `spark.python.daemon.module` says
_tasks = itertools.count()


def begin_task() -> None:
    """Called at the start of each task."""
    keep_freed_memory()
    set_modules_aside()
    leave_quietly()


def set_modules_aside() -> None:
    """Done with the second task: at the end of the first, when Spark takes
    its results, the last modules were imported."""
    if next(_tasks) == 1:
        gc.collect()
        gc.freeze()


def leave_quietly() -> None:
    """For this process, if it is such a worker: from the next task that it waits for."""
    main: Any = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") != DAEMON or main.worker.__module__ == __name__:
        return
    serve = main.worker

    def worker(sock: socket, authenticated: bool) -> int:
        try:
            code: int = serve(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # what the daemon does when it has printed the traceback
        return code

    main.worker = worker
