"""Broker connection of a pipeline: `barnabas.*` settings of its configuration, followed by Kafka's setting names.

configuration:
  barnabas.bootstrap.servers: broker:9093
  barnabas.security.protocol: SASL_SSL
  barnabas.sasl.mechanism: SCRAM-SHA-512
  barnabas.sasl.username: alice
  barnabas.sasl.password: ${env:KAFKA_PASSWORD}
  barnabas.schema.registry.url: https://registry:8081
  barnabas.schema.registry.basic.auth.user.info: ${env:REGISTRY_LOGIN}

Spark receives `${env:...}` unresolved, so the password appears in no plan, checkpoint or web page of Spark: the source
and the sink resolve it in the driver when they connect. The runner permits this (BARNABAS_REFERENCES).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.schemas import is_registry_setting
from barnabas.client.security import (
    ClientSecurity,
    is_security_setting,
    parse_security,
    read_properties,
    reference_to,
)
from barnabas.security.authn import SecuritySettingError
from barnabas.spark import CLIENT_PREFIX, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "barnabas."
BOOTSTRAP = "bootstrap.servers"


def broker_options(spark: SparkSession) -> dict[str, str]:
    """Return the `kafka.*` options for the sources and sinks of a definition."""
    return connection_options(spark.conf.getAll)


def connection_options(configuration: Mapping[str, str]) -> dict[str, str]:
    kafka = {CLIENT_PREFIX + name: value for name, value in _settings(configuration).items()}
    return {**kafka, **registry_options(configuration)}


def registry_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the `schema.registry.*` options, from settings such as `barnabas.schema.registry.url`."""
    return {name: value for name, value in _named(configuration).items() if is_registry_setting(name)}


def security_of(configuration: Mapping[str, str]) -> ClientSecurity:
    """Return the security settings for the runner's own broker connections."""
    try:
        return parse_security(_settings(configuration), references=True)
    except SecuritySettingError as error:
        raise PipelineError(f"{PREFIX}{error}.") from None


def settings_from(file: Path) -> dict[str, str]:
    """Return the security settings of a `--command-config` file, as references to the file instead of its secrets."""
    named = read_properties("--command-config", file)
    return {
        PREFIX + name: reference_to(file, name)
        for name in named
        if is_security_setting(name) or is_registry_setting(name)
    }


def _settings(configuration: Mapping[str, str]) -> dict[str, str]:
    named = _named(configuration)
    return {name: value for name, value in named.items() if name == BOOTSTRAP or is_security_setting(name)}


def _named(configuration: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX): value for name, value in configuration.items() if name.startswith(PREFIX)
    }
