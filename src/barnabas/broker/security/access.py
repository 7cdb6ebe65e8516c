"""Who may do what and how much, as the cluster's metadata say it now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.cluster.deltas import ConfigsChanged, DelegationTokenRemoved, Delta, ScramCredentialChanged
from barnabas.cluster.image import MetadataImage
from barnabas.network import SocketServer
from barnabas.network.requests import RequestTurn
from barnabas.network.requests.dispatch import Dispatcher
from barnabas.security.authn import ScramMechanism
from barnabas.security.authn.sasl import SaslLogin, SaslState
from barnabas.security.authz import StandardAuthorizer
from barnabas.security.quotas import NO_QUOTAS
from barnabas.security.quotas.client_quotas import ClientQuotas

# -- Credentials that do not count any more: which sessions have begun with them -----------------------

_SASL_NAMES = {int(each): each.sasl_name for each in ScramMechanism}


class Revoked(NamedTuple):
    """What an entry of the metadata log takes back."""

    users: frozenset[tuple[str, str]]
    """Names, each with a mechanism: a user may have another password for each."""
    tokens: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.users or self.tokens)

    def was_used_in(self, login: SaslLogin) -> bool:
        if login.principal is None:
            # It may be about to finish with the old credential: it begins again.
            return login.state is SaslState.EXCHANGE and login.mechanism in _SASL_NAMES.values()
        if login.token_id is not None:
            return login.token_id in self.tokens
        return (login.principal.name, login.mechanism) in self.users


def revoked_by(deltas: Iterable[Delta]) -> Revoked:
    users, tokens = set(), set()
    for delta in deltas:
        if isinstance(delta, ScramCredentialChanged) and delta.mechanism in _SASL_NAMES:
            users.add((delta.user, _SASL_NAMES[delta.mechanism]))
        elif isinstance(delta, DelegationTokenRemoved):
            tokens.add(delta.token_id)
    return Revoked(frozenset(users), frozenset(tokens))


class AccessControl(NamedTuple):
    """The parts of a broker that decide about requests, by ACLs and quotas."""

    authorizer: StandardAuthorizer | None
    quotas: ClientQuotas
    dispatcher: Dispatcher
    sockets: SocketServer

    async def prepare(self, image: MetadataImage) -> None:
        """What takes long of following an image is done here, in turns; requests are decided as before meanwhile."""
        if self.authorizer is not None and self.authorizer.acls is not image.acls:
            await RequestTurn().run(self.authorizer.preparing(image.acls))

    def follow(self, before: MetadataImage, image: MetadataImage) -> None:
        if self.authorizer is not None and image.acls is not before.acls:
            self.authorizer.use(image.acls)
        if image.client_quotas is not before.client_quotas:
            self._use_quotas(image)

    def end_sessions(self, deltas: Iterable[Delta]) -> None:
        """Close connections whose credential was changed or removed by an entry of the metadata log."""
        deltas = list(deltas)
        if revoked := revoked_by(deltas):
            self.sockets.connections.close_sessions(revoked.was_used_in)
        if any(isinstance(delta, ConfigsChanged) for delta in deltas):
            self.end_revoked()

    def end_revoked(self) -> None:
        """Close connections whose credential is not in the settings, or not signed by the keys, of now."""
        self.sockets.connections.close_sessions(lambda login: login.is_revoked)

    def _use_quotas(self, image: MetadataImage) -> None:
        """Requests are charged for as long as there are quotas that they could exceed."""
        self.sockets.use_address_quotas(image.client_quotas)
        if self.quotas.update(image.client_quotas):
            self.dispatcher.use_quotas(self.quotas if self.quotas.kinds else NO_QUOTAS)
