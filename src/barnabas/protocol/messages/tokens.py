"""Delegation tokens."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, byte_string, int16, int32, int64, string


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message, api_key=38, versions="1-3", flexible="2+"):
    """Creates a token that authenticates as its owner."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, api_key=38, versions="1-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = byte_string(is_secret=True)
    throttle_time_ms: int = int32()


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    """Extends the lifetime of a token."""

    hmac: bytes = byte_string(is_secret=True)
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    """Expires a token."""

    hmac: bytes = byte_string(is_secret=True)
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    """Lists tokens by owner."""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="1+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = byte_string(is_secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
