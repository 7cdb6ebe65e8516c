"""SCRAM users (KIP-554), by the requests of Kafka's Admin. A refusal is a KafkaError with its reason."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.scram import FEWEST_ITERATIONS, SALT_BYTES, salted_password


class User(NamedTuple):
    name: str
    iterations: dict[ScramMechanism, int]
    """For each mechanism that the user can log in with."""


async def describe_users(client: Client, names: Iterable[str] = ()) -> list[User]:
    """All of them, or those that exist of some."""
    request = DescribeUserScramCredentialsRequest([UserName(name) for name in names] or None)
    response: DescribeUserScramCredentialsResponse = await client.send_to_any(request)
    raise_for(response.error_code, response.error_message or "")
    users = []
    for result in response.results:
        if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            raise_for(result.error_code, result.error_message or "")
            infos = {ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos}
            users.append(User(result.user, infos))
    return sorted(users)


async def set_password(
    client: Client, name: str, password: str, mechanisms: Iterable[ScramMechanism], iterations: int
) -> None:
    """Let a user log in with this password, which is not sent: brokers get keys derived from it. A request may name a
    user once, so there is one for each mechanism."""
    for request in setting_password(name, password, mechanisms, iterations):
        await _alter(client, request)


def setting_password(
    name: str, password: str, mechanisms: Iterable[ScramMechanism], iterations: int = FEWEST_ITERATIONS
) -> Iterator[AlterUserScramCredentialsRequest]:
    """The requests that do it. Each takes some milliseconds to make."""
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertion = ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)
        yield AlterUserScramCredentialsRequest([], [upsertion])


async def delete_user(client: Client, name: str) -> None:
    """From every mechanism; KafkaError when there is no such user."""
    users = await describe_users(client, [name])
    if not users:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name}")
    for mechanism in users[0].iterations:
        deletion = ScramCredentialDeletion(name, mechanism)
        await _alter(client, AlterUserScramCredentialsRequest([deletion], []))


async def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    raise_refusals(await client.send_to_controller(request))


def raise_refusals(response: AlterUserScramCredentialsResponse) -> None:
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")
