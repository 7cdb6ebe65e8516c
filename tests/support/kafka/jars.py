"""Location of Apache Kafka's jars, and the skip without them.

A test marked `@requires_java` is skipped with the reason on a machine without Java or the jars; with
CI=true it fails instead, so that a broken CI image cannot hide half of the suite (see conftest.py).
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.programs import PROJECT_ROOT

KAFKA_VERSION = "4.3.1"
DEFAULT_LIBS = PROJECT_ROOT / ".cache" / f"kafka-{KAFKA_VERSION}" / "libs"
NEWEST_CLIENT_VERSION = "4.4.0"
NEWEST_CLIENT_LIBS = PROJECT_ROOT / ".cache" / f"kafka-clients-{NEWEST_CLIENT_VERSION}" / "libs"

requires_java = pytest.mark.java


def kafka_libs() -> Path:
    """The folder of the jars: KAFKA_LIBS, or where `make java` puts them."""
    return Path(os.environ.get("KAFKA_LIBS") or DEFAULT_LIBS)


def jar(artifact: str) -> Path:
    """One jar by its artifact's name: `jar("kafka-clients")`."""
    return kafka_libs() / f"{artifact}-{KAFKA_VERSION}.jar"


def newest_client_jar() -> Path:
    """Of a newer version than the other jars, with the messages we declare."""
    return NEWEST_CLIENT_LIBS / f"kafka-clients-{NEWEST_CLIENT_VERSION}.jar"


def reason_java_is_missing() -> str | None:
    """Reason of the skip, or None."""
    if shutil.which("java") is None:
        return "no `java` on PATH: install a Java runtime, 17 or newer, and run `make java`"
    if not jar("kafka-tools").exists():
        return f"no Apache Kafka {KAFKA_VERSION} in {kafka_libs()}: run `make java`, or set KAFKA_LIBS"
    if not newest_client_jar().exists():
        return f"no client of Apache Kafka {NEWEST_CLIENT_VERSION} in {NEWEST_CLIENT_LIBS}: run `make java`"
    return None
