"""Users that a running broker creates itself: the first one of `serve --users`, and those of an embedded broker.

While no broker runs, `offline` creates them.
"""

from __future__ import annotations

import secrets
from typing import Protocol

from barnabas.broker.local_requests import answer
from barnabas.client.access.users import raise_refusals, setting_password
from barnabas.cluster.image import MetadataImage
from barnabas.network.requests.dispatch import Dispatcher
from barnabas.protocol.messages.sasl import AlterUserScramCredentialsResponse
from barnabas.security.authn.credentials import ScramMechanism

FIRST_USER = "admin"
_PASSWORD_BYTES = 18  # 144 bits: nobody guesses it, however fast


class Serving(Protocol):
    """A broker, as far as it is asked here."""

    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def image(self) -> MetadataImage: ...


async def create_first_user(broker: Serving) -> str | None:
    """If there are no users, create one and return the password, which is known nowhere else."""
    if broker.image.scram_credentials:
        return None
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    await add_user(broker, FIRST_USER, password)
    return password


async def add_user(broker: Serving, name: str, password: str) -> None:
    """With both mechanisms."""
    for request in setting_password(name, password, ScramMechanism):
        response = await answer(broker, request)
        assert isinstance(response, AlterUserScramCredentialsResponse)
        raise_refusals(response)
