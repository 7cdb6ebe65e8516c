"""Registries that may receive client credentials: those in --peers, and a leader announced in the topic.

Any client with READ on the group can join it and claim to lead. So a leader records its address in `_schemas` before
others forward to it, using the transactional id reserved for registries. The record is a NOOP, which Confluent's
registry and Karapace skip, under a key that only Barnabas writes, so that compaction keeps it.
"""

from __future__ import annotations

import urllib.parse
from pathlib import Path

from barnabas.client import Client, ClientError
from barnabas.client.access import describe_acls
from barnabas.client.security import ClientSecurity
from barnabas.client.transactions import describe_transaction
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.security.authz import ANY, AclFilter, Operation, ResourceType
from barnabas.security.authz.acls import ALL_OPERATIONS, PatternType, Permission
from barnabas.services.registry import errors
from barnabas.services.registry.leadership import RegistryIdentity
from barnabas.services.registry.reader import SchemaReader
from barnabas.services.registry.topic import TRANSACTIONAL_ID

logger = safe_logger(__name__)

ANNOUNCEMENT_SECONDS = 5.0  # for a newly elected leader to record its address
_PORTS = {"http": 80, "https": 443}


class InvalidPeerError(ValueError):
    """Not a valid peer address; the message contains an example."""


def parse_peers(text: str) -> frozenset[str]:
    """Parse `http://registry1:8081,https://registry2:8081`; InvalidPeerError for an invalid address."""
    return frozenset(_parse_peer(part.strip()) for part in text.split(",") if part.strip())


def _parse_peer(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text)
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
    except (ValueError, KeyError):
        raise InvalidPeerError(_not_an_address(text)) from None
    if (
        parts.scheme not in _PORTS
        or not parts.hostname
        or parts.path.strip("/")
        or parts.query
        or parts.username
    ):
        raise InvalidPeerError(_not_an_address(text))
    return RegistryIdentity(parts.hostname, port, parts.scheme).url


def _not_an_address(text: str) -> str:
    return f"not a valid registry address: {text!r} (example: http://registry1:8081)"


class RegistryPeers:
    """Decides if a request, including its credentials, may be forwarded to a leader."""

    def __init__(self, listed: frozenset[str], reader: SchemaReader, client: Client) -> None:
        self._listed = listed
        self._reader = reader
        self._client = client
        self._verified: RegistryIdentity | None = None  # the last leader with a verified announcement

    async def check(self, leader: RegistryIdentity, own: RegistryIdentity, seconds_left: float) -> None:
        """Error 503 unless the leader may receive credentials; waits up to `seconds_left` for its announcement."""
        if own.scheme == "https" and leader.scheme != "https":
            raise errors.untrusted_leader(
                leader.url,
                "it does not use https, and requests received by https are not forwarded in plain text",
            )
        if leader.url in self._listed or leader == self._verified:
            return
        if not await self._is_announced(leader, seconds_left):
            raise errors.untrusted_leader(
                leader.url,
                "it is neither listed in --peers nor recorded in the topic by a registry of this kind: "
                "add it to --peers if you trust it",
            )
        self._verified = leader

    async def _is_announced(self, leader: RegistryIdentity, seconds_left: float) -> bool:
        try:
            await self._reader.catch_up(self._client)
            await self._reader.wait_until(lambda: self._claims(leader), seconds_left)
            _, found = await describe_transaction(self._client, TRANSACTIONAL_ID)
        except (ClientError, KafkaError, TimeoutError) as error:
            logger.info("no announcement by %s: %s", leader.url, str(error) or "none was written")
            return False
        return self._reader.state.announced.get(found.producer_id) == leader.url

    def _claims(self, leader: RegistryIdentity) -> bool:
        return leader.url in self._reader.state.announced.values()


async def warn_of_others(client: Client, group: str, security: ClientSecurity) -> None:
    """Log the principals that could join the group of registries and claim to lead."""
    acl_filter = AclFilter(
        ResourceType.GROUP, group, PatternType.MATCH, None, None, ANY, Permission.ALLOW
    )  # fmt: skip
    try:
        found = await describe_acls(client, acl_filter)
    except (ClientError, KafkaError) as error:
        logger.info("cannot check which users may join the group %s: %s", group, error)
        return
    own = f"User:{_own_name(security)}"
    joining = (Operation.READ, ALL_OPERATIONS)
    others = sorted({acl.principal for acl in found if acl.operation in joining} - {own})
    if others:
        logger.warning(
            "%s may join the group %s and claim to be the primary: changes then fail with 503. "
            "Allow READ on this group to registries only",
            *(", ".join(others[:10]), group),
        )


def _own_name(security: ClientSecurity) -> str:
    """Principal name of this registry before any mapping by brokers; empty if unknown, as with a token."""
    if security.sasl is not None:
        return security.sasl.username
    store = None if security.tls is None else security.tls.certificate
    if store is None or store.path is None:
        return ""
    from barnabas.security.tls import subject_of_pem

    try:
        return subject_of_pem(Path(store.path).read_text())
    except (OSError, ValueError):  # not PEM
        return ""
