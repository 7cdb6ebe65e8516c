"""Security settings that name a Java class: Kafka's classes select built-in equivalents, others are refused.

Kafka loads the class and relies on it. A broker that ignored the setting would be less secure than its operator
believes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.config.definitions import base_name
from barnabas.config.security.sasl_settings import AUTHORIZERS
from barnabas.config.setting import ConfigError

_SECURITY = "org.apache.kafka.common.security."
_OAUTH = f"{_SECURITY}oauthbearer."

KNOWN_CLASSES: dict[str, frozenset[str]] = {
    "authorizer.class.name": frozenset(AUTHORIZERS),
    "principal.builder.class": frozenset({f"{_SECURITY}authenticator.DefaultKafkaPrincipalBuilder"}),
    "sasl.server.callback.handler.class": frozenset(
        {
            f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
            f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
        }
    ),
    "sasl.login.callback.handler.class": frozenset(
        {f"{_OAUTH}OAuthBearerLoginCallbackHandler", f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler"}
    ),
    "sasl.client.callback.handler.class": frozenset(),
    "sasl.login.class": frozenset(),
    "sasl.oauthbearer.jwt.retriever.class": frozenset(
        {
            f"{_OAUTH}DefaultJwtRetriever",
            f"{_OAUTH}ClientCredentialsJwtRetriever",
            f"{_OAUTH}FileJwtRetriever",
        }
    ),
    "sasl.oauthbearer.jwt.validator.class": frozenset(
        {f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator"}
    ),
    "client.quota.callback.class": frozenset(),
    "ssl.engine.factory.class": frozenset(),
    "security.providers": frozenset(),
    "create.topic.policy.class.name": frozenset(),
    "alter.config.policy.class.name": frozenset(),
}
"""Classes by setting whose behaviour is built in."""


def check_classes(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for the first unsupported class."""
    for name, value in _classes_in(properties):
        if value not in KNOWN_CLASSES[base_name(name)]:
            known = sorted(KNOWN_CLASSES[base_name(name)])
            advice = f"use {' or '.join(known)}, or remove" if known else "remove"
            raise ConfigError(
                f"{name} is {value}, a Java class that Barnabas cannot load, so it would not take effect: "
                f"{advice} the setting if Barnabas may run without it"
            )


def _classes_in(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in properties.items():
        value = text.strip()
        if value and base_name(name) in KNOWN_CLASSES:
            yield name, value
