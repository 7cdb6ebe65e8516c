"""Who may do what and how much, as the cluster's metadata say it now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.broker.security.revocation import revoked_by
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage
from barnabas.network.requests.dispatch import Dispatcher
from barnabas.network.requests.time_slices import RequestTurn
from barnabas.network.socket_server import SocketServer
from barnabas.security.quotas import NO_QUOTAS
from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.security.authz.standard_authorizer import StandardAuthorizer


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
        """Of those who came with a credential that is changed or gone."""
        if revoked := revoked_by(deltas):
            self.sockets.connections.close_sessions(revoked.was_used_in)

    def _use_quotas(self, image: MetadataImage) -> None:
        """Requests are charged for as long as there are quotas that they could exceed."""
        self.sockets.use_address_quotas(image.client_quotas)
        if self.quotas.update(image.client_quotas):
            self.dispatcher.use_quotas(self.quotas if self.quotas.kinds else NO_QUOTAS)
