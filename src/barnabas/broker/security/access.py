"""Access control from the cluster metadata: ACLs, quotas and revoked credentials."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.cluster.deltas import ConfigsChanged, DelegationTokenRemoved, Delta, ScramCredentialChanged
from barnabas.cluster.image import MetadataImage
from barnabas.network import SocketServer
from barnabas.network.requests import Dispatcher, RequestTurn
from barnabas.security.authn import ScramMechanism
from barnabas.security.authn.sasl import SaslLogin, SaslState
from barnabas.security.authz import StandardAuthorizer
from barnabas.security.quotas import NO_QUOTAS, ClientQuotas

# -- Revoked credentials, and the sessions authenticated with them ------------------------------------------------

_SASL_NAMES = {int(each): each.sasl_name for each in ScramMechanism}


class RevokedCredentials(NamedTuple):
    """Credentials revoked by an entry of the metadata log."""

    users: frozenset[tuple[str, str]]
    """(name, mechanism): a user may have a different password for each mechanism."""
    tokens: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.users or self.tokens)

    def was_used_in(self, login: SaslLogin) -> bool:
        if login.principal is None:
            # An exchange in progress may still use the old credential: close it too.
            return login.state is SaslState.EXCHANGE and login.mechanism in _SASL_NAMES.values()
        if login.token_id is not None:
            return login.token_id in self.tokens
        return (login.principal.name, login.mechanism) in self.users


def revoked_by(deltas: Iterable[Delta]) -> RevokedCredentials:
    users, tokens = set(), set()
    for delta in deltas:
        if isinstance(delta, ScramCredentialChanged) and delta.mechanism in _SASL_NAMES:
            users.add((delta.user, _SASL_NAMES[delta.mechanism]))
        elif isinstance(delta, DelegationTokenRemoved):
            tokens.add(delta.token_id)
    return RevokedCredentials(frozenset(users), frozenset(tokens))


class AccessControl(NamedTuple):
    """Applies ACLs and quotas of the metadata image to requests."""

    authorizer: StandardAuthorizer | None
    quotas: ClientQuotas
    dispatcher: Dispatcher
    sockets: SocketServer

    async def prepare(self, image: MetadataImage) -> None:
        """Index the ACLs of an image in short slices. Requests are checked against the previous ACLs meanwhile."""
        if self.authorizer is not None and self.authorizer.acls is not image.acls:
            await RequestTurn().run(self.authorizer.preparing(image.acls))

    def follow(self, before: MetadataImage, image: MetadataImage) -> None:
        if self.authorizer is not None and image.acls is not before.acls:
            self.authorizer.use(image.acls)
        if image.client_quotas is not before.client_quotas:
            self._use_quotas(image)

    def end_sessions(self, deltas: Iterable[Delta]) -> None:
        """Close connections whose credential was changed or removed by these deltas."""
        deltas = list(deltas)
        if revoked := revoked_by(deltas):
            self.sockets.connections.close_sessions(revoked.was_used_in)
        if any(isinstance(delta, ConfigsChanged) for delta in deltas):
            self.end_revoked()

    def end_revoked(self) -> None:
        """Close connections whose credential is no longer configured, or whose signing key is no longer valid."""
        self.sockets.connections.close_sessions(lambda login: login.is_revoked)

    def _use_quotas(self, image: MetadataImage) -> None:
        """Apply quotas. Requests are only charged if at least one quota exists."""
        self.sockets.use_address_quotas(image.client_quotas)
        if self.quotas.update(image.client_quotas):
            self.dispatcher.use_quotas(self.quotas if self.quotas.kinds else NO_QUOTAS)
