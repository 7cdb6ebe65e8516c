"""Delegation tokens are created, renewed and expired (KIP-48).

A token lives until `expires_ms`, which renewing moves, and never beyond `max_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from barnabas.cluster.deltas import DelegationTokenRemoved, DelegationTokenStored
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.controller.decision import Decided
from barnabas.security.authn import DelegationToken, is_expired, is_owner_or_renewer

MAX_RENEWERS = 100
"""A token is kept in the metadata of every broker. Kafka has no limit."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The settings delegation.token.* of a broker, and barnabas.delegation.tokens.max."""

    longest_ms: int
    renewed_for_ms: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class NewToken:
    owner: str
    requester: str
    renewers: tuple[str, ...]
    lifetime_ms: int
    """Less than one: the maximum of the settings."""


def create_token(
    image: MetadataImage, requested: NewToken, rules: TokenRules, now_ms: int
) -> Decided[DelegationToken]:
    if len(requested.renewers) > MAX_RENEWERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a token has at most {MAX_RENEWERS} renewers")
    if len(image.delegation_tokens) >= rules.max_tokens:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"there are as many tokens as barnabas.delegation.tokens.max allows ({rules.max_tokens})",
        )
    lifetime = min(requested.lifetime_ms, rules.longest_ms) if requested.lifetime_ms > 0 else rules.longest_ms
    longest = now_ms + lifetime
    token = DelegationToken(
        uuid_to_text(new_uuid()),
        requested.owner,
        requested.requester,
        requested.renewers,
        now_ms,
        min(longest, now_ms + rules.renewed_for_ms),
        longest,
    )
    return [DelegationTokenStored(token)], token


def renew_token(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, rules: TokenRules, now_ms: int
) -> Decided[int]:
    """Renew a token; return its new expiry. A period of zero or less means that of the settings."""
    token = _found(image, token_id)
    if is_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_concerns(token, principal)
    period = min(period_ms, rules.renewed_for_ms) if period_ms > 0 else rules.renewed_for_ms
    return _expiring(token, now_ms + period)


def expire_token(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, now_ms: int
) -> Decided[int]:
    """Change the expiry of a token and return it. A negative period removes the token immediately."""
    token = _found(image, token_id)
    _check_concerns(token, principal)
    if period_ms < 0:
        return [DelegationTokenRemoved(token.token_id)], now_ms
    if is_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _expiring(token, now_ms + period_ms)


def remove_expired(image: MetadataImage, now_ms: int) -> Decided[int]:
    """Remove expired tokens; return their number."""
    expired = [token for token in image.delegation_tokens.values() if is_expired(token, now_ms)]
    return [DelegationTokenRemoved(token.token_id) for token in expired], len(expired)


def _found(image: MetadataImage, token_id: str | None) -> DelegationToken:
    token = None if token_id is None else image.delegation_tokens.get(token_id)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_concerns(token: DelegationToken, principal: str) -> None:
    if not is_owner_or_renewer(token, principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(token: DelegationToken, at_ms: int) -> Decided[int]:
    expires = min(token.max_ms, at_ms)
    return [DelegationTokenStored(replace(token, expires_ms=expires))], expires
