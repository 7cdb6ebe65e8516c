"""SCRAM users (KIP-554), delegation tokens (KIP-48) and client quotas (KIP-546). Rejections raise KafkaError."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from barnabas.protocol.messages.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.security.authn import (
    MIN_ITERATIONS,
    SALT_BYTES,
    DelegationToken,
    ScramMechanism,
    salted_password,
)
from barnabas.security.quotas.filters import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity

# -- Delegation tokens (KIP-48) ------------------------------------------------------------------------

_REFUSALS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in as a user first (--command-config), and not with a token",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "unknown token",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only the owner of the token and its renewers may do this",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "a token for another user requires CreateTokens on that user",
    ErrorCode.POLICY_VIOLATION: "the limit barnabas.delegation.tokens.max is reached",
}


async def create_token(
    client: Client, owner: str | None, renewers: Iterable[str], lifetime_ms: int
) -> tuple[DelegationToken, str]:
    """The token and its HMAC in base64, which is its password. Principals are given as `User:alice`."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(*parts(name)) for name in renewers], max_lifetime_ms=lifetime_ms
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = parts(owner)
    made: CreateDelegationTokenResponse = await client.send_to_controller(request)
    _raise_for(made.error_code)
    token = DelegationToken(
        made.token_id,
        f"{made.principal_type}:{made.principal_name}",
        f"{made.token_requester_principal_type}:{made.token_requester_principal_name}",
        tuple(renewers),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )
    return token, base64.b64encode(made.hmac).decode()


async def describe_tokens(client: Client, owners: Iterable[str] | None = None) -> list[DelegationToken]:
    """Tokens visible to this client, without their HMACs."""
    wanted = None if owners is None else [DescribeDelegationTokenOwner(*parts(each)) for each in owners]
    response: DescribeDelegationTokenResponse = await client.send_to_any(
        DescribeDelegationTokenRequest(wanted)
    )
    _raise_for(response.error_code)
    return [
        DelegationToken(
            token.token_id,
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        )
        for token in response.tokens
    ]


async def renew_token(client: Client, password: str, period_ms: int) -> int:
    """Renew a token; returns its new expiry time."""
    return await _move(client, RenewDelegationTokenRequest(hmac_in(password), period_ms))


async def expire_token(client: Client, password: str, period_ms: int) -> int:
    """Change the expiry of a token and return it; a negative period expires it now."""
    return await _move(client, ExpireDelegationTokenRequest(hmac_in(password), period_ms))


async def _move(client: Client, request: Any) -> int:
    response = await client.send_to_controller(request)
    _raise_for(response.error_code)
    return int(response.expiry_timestamp_ms)


def hmac_in(password: str) -> bytes:
    try:
        return base64.b64decode(password, validate=True)
    except binascii.Error:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
            "not a valid token HMAC: expected base64, as printed at its creation",
        ) from None


def parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _raise_for(code: int) -> None:
    raise_for(code, _REFUSALS.get(ErrorCode(code), ""))


# -- Client quotas (KIP-546) ---------------------------------------------------------------------------

KINDS = (USER, CLIENT_ID, IP)


async def describe_quotas(client: Client) -> dict[QuotaEntity, dict[str, float]]:
    """Quotas of all entities."""
    response: DescribeClientQuotasResponse = await client.send_to_any(DescribeClientQuotasRequest())
    raise_for(response.error_code, response.error_message or "")
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values}
        for entry in response.entries or ()
    }


async def alter_quotas(client: Client, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity; None removes one."""
    named = [
        EntityData(kind, None if name == DEFAULT else name)
        for kind, name in zip(KINDS, entity, strict=True)
        if name is not None
    ]
    ops = [OpData(key, value or 0.0, value is None) for key, value in changes.items()]
    request = AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(named, ops)])
    response: AlterClientQuotasResponse = await client.send_to_controller(request)
    for entry in response.entries:
        raise_for(entry.error_code, entry.error_message or "")


def _entity(parts: list[EntityData]) -> QuotaEntity:
    named = {part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in parts}
    return QuotaEntity(*(named.get(kind) for kind in KINDS))


class User(NamedTuple):
    name: str
    iterations: dict[ScramMechanism, int]
    """Credentials of the user, one per mechanism."""


async def describe_users(client: Client, names: Iterable[str] = ()) -> list[User]:
    """All users, or the existing ones among `names`."""
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
    name: str, password: str, mechanisms: Iterable[ScramMechanism], iterations: int = MIN_ITERATIONS
) -> Iterator[AlterUserScramCredentialsRequest]:
    """Requests that set the password. Building one takes some milliseconds (key derivation)."""
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertion = ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)
        yield AlterUserScramCredentialsRequest([], [upsertion])


async def delete_user(client: Client, name: str) -> None:
    """Delete the user's credentials of every mechanism; KafkaError if the user does not exist."""
    users = await describe_users(client, [name])
    if not users:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {name} does not exist")
    for mechanism in users[0].iterations:
        deletion = ScramCredentialDeletion(name, mechanism)
        await _alter(client, AlterUserScramCredentialsRequest([deletion], []))


async def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    raise_refusals(await client.send_to_controller(request))


def raise_refusals(response: AlterUserScramCredentialsResponse) -> None:
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")
