"""Lets Spark's JVM start in half the time.

Until its first result Spark loads 18,000 classes out of 300 jars and verifies them, which is most of what it does in
that time. Java can keep classes in a file as it has them in memory (class data sharing, JEP 350). `make demo` writes
such an archive while it sets up; every session of `session_builder` uses it where it is there. A JVM that finds an
archive of another Java or of other jars starts without it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from fastcrc.crc32 import iscsi as crc32c

from barnabas.spark.fast_workers import cache_folder

# About the archive Java speaks on standard output, where ours is.
SILENT = "-Xlog:cds*=off"


def archive_options() -> list[str]:
    """Options for the JVM of this process; none where there is no archive."""
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", SILENT] if archive is not None and archive.exists() else []


def recording_options(archive: Path) -> list[str]:
    """With these the JVM writes the archive when it ends, which takes it some seconds."""
    return [f"-XX:ArchiveClassesAtExit={archive}", SILENT]


def archive_path() -> Path | None:
    """One for each Spark and each Java; None where there is no Java."""
    java = _java()
    if java is None:
        return None
    from pyspark.version import __version__

    found = java.stat()
    named = f"{os.environ.get('SPARK_HOME')} {java} {found.st_size} {found.st_mtime_ns}"
    return cache_folder() / f"spark-{__version__}-{crc32c(named.encode()):08x}.jsa"


def shares_classes() -> bool:
    """Whether this Java has the archive of its own classes that ours stands on. Those that pip brings lack it."""
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
