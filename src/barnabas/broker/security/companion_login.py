"""Credentials of a companion process: a dedicated user with a generated password and the ACLs it needs.

The password is generated at every start, stored as a SCRAM credential, and sent to the companion only over its pipe.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from barnabas.broker.local_requests import answer
from barnabas.broker.security.offline import OfflineNeeds, add_user
from barnabas.broker.security.tls import authority_of
from barnabas.config.broker import BrokerConfig
from barnabas.config.listeners import ListenerSpec
from barnabas.config.setting import ConfigError
from barnabas.protocol.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.security import USER, Principal
from barnabas.security.authz.acls import AclBinding
from barnabas.security.tls import MappingRules, NoRuleAppliesError

_PASSWORD_BYTES = 24
_SCRAM = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})


class CompanionBroker(OfflineNeeds, Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class NoLoginError(ConfigError):
    """The broker cannot create a login for its companion; the message says what to do."""


async def login_of(
    broker: CompanionBroker,
    listener: ListenerSpec,
    ports: Iterable[int],
    name: str,
    rights: Iterable[AclBinding],
) -> tuple[str, dict[str, str]]:
    """Return the bootstrap addresses and the client settings of the companion, in the format of Kafka's Java client."""
    config, protocol = broker.config, listener.security_protocol
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= _trust(config, name)
    if protocol.startswith("SASL"):
        settings |= await _sasl(broker, listener, name)
    if config["authorizer.class.name"]:
        principal = _principal(config, listener, settings)
        if principal is not None:
            rights = [msgspec.structs.replace(acl, principal=principal) for acl in rights]
        await _allow(broker, rights)
    host = "127.0.0.1" if listener.host in _WILDCARDS else listener.host
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports), settings


def _principal(config: BrokerConfig, listener: ListenerSpec, settings: Mapping[str, str]) -> str | None:
    """Principal of the companion's certificate on this listener; None if it does not authenticate by certificate."""
    from barnabas.security.tls import subject_of_pem

    path = settings.get("ssl.keystore.location")
    if listener.security_protocol != "SSL" or path is None:
        return None
    rules = MappingRules.parse(config.of_listener(listener.name, "ssl.principal.mapping.rules"))
    try:
        return str(Principal(USER, rules.name_of(subject_of_pem(Path(path).read_text()))))
    except NoRuleAppliesError as error:
        raise NoLoginError(f"the listener {listener.name} would not accept the registry: {error}") from None


def _trust(config: BrokerConfig, name: str) -> dict[str, str]:
    if not config["barnabas.tls.auto"]:
        raise NoLoginError(
            "this broker did not generate its certificates (--tls auto): configure how the registry connects "
            "with --registry-config FILE (security.protocol, ssl.* and sasl.* settings)"
        )
    authority = authority_of(config)
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.certificate)}
    if config["ssl.client.auth"] != "none":
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.client(name))}
    return settings


async def _sasl(broker: CompanionBroker, listener: ListenerSpec, name: str) -> dict[str, str]:
    offered = broker.config.of_listener(listener.name, "sasl.enabled.mechanisms")
    mechanism = next((one for one in _SCRAM if one in offered), None)
    if mechanism is None:
        raise NoLoginError(
            f"the listener {listener.name} does not offer SCRAM, so the broker cannot create a user for the registry: "
            "configure how it connects with --registry-config FILE"
        )
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    await add_user(broker, name, password)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{name}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


async def _allow(broker: CompanionBroker, rights: Iterable[AclBinding]) -> None:
    creations = [
        AclCreation(
            acl.resource_type,
            acl.name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in rights
    ]
    response = await answer(broker, CreateAclsRequest(creations))
    assert isinstance(response, CreateAclsResponse)
    for result in response.results:
        if result.error_code:
            raise NoLoginError(
                f"cannot create the ACLs of the registry: {result.error_message or result.error_code}"
            )
