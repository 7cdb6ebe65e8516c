"""All settings by scope and name, and the nearest valid name to one that is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache

from barnabas.config.broker_settings import IDENTITY_SETTINGS, NETWORK_SETTINGS, TOPIC_MANAGEMENT_SETTINGS
from barnabas.config.coordinator_settings import CLIENT_METRICS_SETTINGS, COORDINATOR_SETTINGS, GROUP_SETTINGS
from barnabas.config.log_settings import LOG_SETTINGS, REPLICATION_SETTINGS
from barnabas.config.security.sasl_settings import (
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

MAX_GUESSED = 100
"""Characters of a name that may be a slip; the longest setting has 60."""
NEAR = 0.5
"""How alike a name must be to one that exists: 0.5 is one slip in ten letters."""


class Scope(IntEnum):
    """What settings belong to; the numbers are the resource types of the configuration APIs."""

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
    """The setting behind a name, `listener.name.<listener>.` before it or not; unused ones too."""
    setting = BROKER.get(name) or UNUSED.get(name) or store_option(name)
    if setting is None and name.startswith(LISTENER_PREFIX):
        return broker_setting(base_name(name))
    return setting


def base_name(name: str) -> str:
    """The name without the listener, and the mechanism, that it is for."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    # SASL settings have the mechanism in front: listener.name.<listener>.<mechanism>.sasl.jaas.config
    rest = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    mechanism, _, setting = rest.partition(".")
    is_for_one = setting.startswith("sasl.") and mechanism != "sasl"
    return setting if is_for_one or mechanism.upper() in MECHANISMS else rest


def suggestion(name: str, known: Mapping[str, Setting]) -> str:
    """Ends a message about an unknown name: the nearest one that exists, if any is near."""
    if len(name) > MAX_GUESSED:
        return ""
    wanted = _trigrams(name)
    nearest = max(known, key=lambda one: _likeness(wanted, _trigrams(one)), default="")
    is_near = _likeness(wanted, _trigrams(nearest)) >= NEAR
    return f"; did you mean {nearest}?" if is_near else ""


@lru_cache(1024)
def _trigrams(name: str) -> frozenset[str]:
    return frozenset(name[index : index + 3] for index in range(max(1, len(name) - 2)))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Dice's coefficient. difflib finds a little more, but takes 50 ms, and a request may name thousands."""
    return 2 * len(one & other) / (len(one) + len(other))
