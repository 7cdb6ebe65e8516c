"""Users that a broker creates itself: the first one of `serve --users`, and those of an embedded broker."""

from __future__ import annotations

import secrets
from typing import Protocol

from barnabas.broker.local_requests import answer
from barnabas.cluster.image import MetadataImage
from barnabas.errors import ErrorCode, KafkaError
from barnabas.network.requests.dispatch import Dispatcher
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from barnabas.security.credentials import ScramMechanism
from barnabas.security.scram import FEWEST_ITERATIONS, salted_password

FIRST_USER = "admin"
_SALT_BYTES = 24
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
    """With both mechanisms; a request may name a user once."""
    for mechanism in ScramMechanism:
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(mechanism, password, salt, FEWEST_ITERATIONS)
        upsertion = ScramCredentialUpsertion(name, mechanism, FEWEST_ITERATIONS, salt, salted)
        response = await answer(broker, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        assert isinstance(response, AlterUserScramCredentialsResponse)
        for result in response.results:
            if result.error_code:
                raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
