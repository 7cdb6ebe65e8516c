"""All settings by scope and name, with suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from barnabas.common.suggestions import closest_by_trigrams
from barnabas.config.broker_settings import IDENTITY_SETTINGS, NETWORK_SETTINGS, TOPIC_MANAGEMENT_SETTINGS
from barnabas.config.coordinator_settings import CLIENT_METRICS_SETTINGS, COORDINATOR_SETTINGS, GROUP_SETTINGS
from barnabas.config.log_settings import LOG_SETTINGS, REPLICATION_SETTINGS
from barnabas.config.sasl_settings import (
    AUDIT_SETTINGS,
    AUTHORIZATION_SETTINGS,
    MECHANISMS,
    OAUTH_SETTINGS,
    QUOTA_SETTINGS,
    SASL_SETTINGS,
    TLS_SETTINGS,
    TOKEN_SETTINGS,
)
from barnabas.config.setting import Setting
from barnabas.config.tiering_settings import TIERING_SETTINGS, store_option
from barnabas.config.topic_settings import TOPIC_SETTINGS
from barnabas.config.unused_settings import UNUSED_SETTINGS


class Scope(IntEnum):
    """Resource that settings belong to; the numbers are the resource types of the configuration APIs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def _by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


BROKER: dict[str, Setting] = _by_name(
    (
        *IDENTITY_SETTINGS,
        *NETWORK_SETTINGS,
        *SASL_SETTINGS,
        *OAUTH_SETTINGS,
        *TLS_SETTINGS,
        *TOPIC_MANAGEMENT_SETTINGS,
        *LOG_SETTINGS,
        *REPLICATION_SETTINGS,
        *COORDINATOR_SETTINGS,
        *AUTHORIZATION_SETTINGS,
        *AUDIT_SETTINGS,
        *QUOTA_SETTINGS,
        *TOKEN_SETTINGS,
        *TIERING_SETTINGS,
    )
)
TOPIC: dict[str, Setting] = _by_name(TOPIC_SETTINGS)
GROUP: dict[str, Setting] = _by_name(GROUP_SETTINGS)
CLIENT_METRICS: dict[str, Setting] = _by_name(CLIENT_METRICS_SETTINGS)
UNUSED: dict[str, Setting] = UNUSED_SETTINGS

BY_SCOPE: dict[Scope, dict[str, Setting]] = {
    Scope.TOPIC: TOPIC,
    Scope.BROKER: BROKER,
    Scope.GROUP: GROUP,
    Scope.CLIENT_METRICS: CLIENT_METRICS,
}

LISTENER_PREFIX = "listener.name."


def broker_setting(name: str) -> Setting | None:
    """Return the setting of a name, with or without the prefix `listener.name.<listener>.`; includes unused ones."""
    setting = BROKER.get(name) or UNUSED.get(name) or store_option(name)
    if setting is None and name.startswith(LISTENER_PREFIX):
        return broker_setting(base_name(name))
    return setting


def base_name(name: str) -> str:
    """Return the name without the prefix of a listener and a SASL mechanism."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    # SASL settings may be for one mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config
    of_listener = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    mechanism, _, setting = of_listener.partition(".")
    has_mechanism = setting.startswith("sasl.") and mechanism != "sasl"
    return setting if has_mechanism or mechanism.upper() in MECHANISMS else of_listener


def suggestion(name: str, known: Mapping[str, Setting]) -> str:
    """Return the end of an error message about an unknown name, empty if no known name is similar."""
    match = closest_by_trigrams(name, known)
    return f"; did you mean {match}?" if match is not None else ""
