"""`barnabas serve --environment`: settings from the environment variables of the Apache Kafka and Confluent images.

    python -m barnabas.cli.container

is the health check of the image: it exits with 1 unless the broker of this container is healthy.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from barnabas.client import Address, parse_address
from barnabas.common.http_client import fetch
from barnabas.config.environment import EnvironmentSettings, read_environment
from barnabas.config.properties import parse_properties

MOUNTED_FILE = Path("/mnt/shared/config/server.properties")  # where Apache's image expects one
HEALTH_SECONDS = 5.0

DEFAULTS = {
    "log.dirs": "/var/lib/kafka/data",  # of Confluent's image, whose volume is mounted there
    "listeners": "PLAINTEXT://:9092",
    "barnabas.metrics.listen": "127.0.0.1:9404",  # for the health check
}
# Apache's: for `docker run -p 9092:9092` without any settings.
WITHOUT_SETTINGS = {"advertised.listeners": "PLAINTEXT://localhost:9092"}


def container_settings(
    config: Path | None, environment: Mapping[str, str] = os.environ, mounted: Path = MOUNTED_FILE
) -> EnvironmentSettings:
    """All properties of the broker: defaults, overridden by the file, overridden by variables."""
    if config is None and mounted.exists():
        config = mounted
    file = {} if config is None else parse_properties(config.read_text(encoding="utf-8"))
    variables, notices = read_environment(environment)
    settings = {**file, **variables}
    defaults = DEFAULTS if settings else {**DEFAULTS, **WITHOUT_SETTINGS}
    properties = {**defaults, **settings}
    if "log.dir" in settings and "log.dirs" not in settings:
        del properties["log.dirs"]
    return EnvironmentSettings(properties, notices)


def is_healthy(properties: Mapping[str, str]) -> bool:
    """Ask the broker's own /health: it serves clients and can write to at least one folder."""
    listen = properties["barnabas.metrics.listen"]
    address = parse_address(f"127.0.0.1{listen}" if listen.startswith(":") else listen)
    host = "127.0.0.1" if address.host in ("*", "0.0.0.0") else address.host
    with_tls = bool(properties.get("barnabas.metrics.tls.listener"))
    url = f"{'https' if with_tls else 'http'}://{Address(host, address.port)}/health"
    # Without verification: this container asks itself, and the certificate is for another name.
    context = ssl._create_unverified_context() if with_tls else None
    try:
        return fetch(url, timeout=HEALTH_SECONDS, tls=context).status == HTTPStatus.OK
    except OSError:
        return False


def main() -> int:
    return 0 if is_healthy(container_settings(None).properties) else 1


if __name__ == "__main__":
    sys.exit(main())
