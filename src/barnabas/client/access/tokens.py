"""Delegation tokens (KIP-48), by the requests of Kafka's Admin. A refusal is a KafkaError with its reason."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from barnabas.client.cluster import Client, raise_for
from barnabas.common.errors import ErrorCode, KafkaError
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
from barnabas.security.authn.credentials import DelegationToken

_REFUSALS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in as a user first (--command-config), and not with a token",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such token",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only the owner of the token and its renewers may do this",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "a token for somebody else needs CreateTokens on that user",
    ErrorCode.POLICY_VIOLATION: "there are as many tokens as barnabas.delegation.tokens.max allows",
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
    """Those that this client may see, without their secrets."""
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
    """When it expires from now on."""
    return await _move(client, RenewDelegationTokenRequest(hmac_in(password), period_ms))


async def expire_token(client: Client, password: str, period_ms: int) -> int:
    """When it expires from now on; at once, with a negative period."""
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
            "the HMAC of a token is in base64, as it was printed when it was made",
        ) from None


def parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _raise_for(code: int) -> None:
    raise_for(code, _REFUSALS.get(ErrorCode(code), ""))
