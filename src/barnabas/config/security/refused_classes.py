"""Security settings that name a Java class: Kafka's own classes are names of what is here, others stop the start.

Kafka would load the class and be protected by it. A broker that ignored the setting would be open where its owner
believes it closed.
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
"""By setting: the classes that mean what Barnabas does anyway."""


def check_classes(properties: Mapping[str, str]) -> None:
    """Raises ConfigError about the first class that Barnabas does not have."""
    for name, value in _classes_in(properties):
        if value not in KNOWN_CLASSES[base_name(name)]:
            known = sorted(KNOWN_CLASSES[base_name(name)])
            instead = f"use {' or '.join(known)}, or leave" if known else "leave"
            raise ConfigError(
                f"{name} is {value}, a Java class, which Barnabas cannot load, so it would not protect anything: "
                f"{instead} the setting out if Barnabas may start without it"
            )


def _classes_in(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in properties.items():
        value = text.strip()
        if value and base_name(name) in KNOWN_CLASSES:
            yield name, value
