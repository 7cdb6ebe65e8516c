"""Denials of requests about users, tokens and quotas; `handlers/authorization` has the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.messages.sasl import AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult
from barnabas.protocol.schema import Message
from barnabas.security.authn import DelegationToken
from barnabas.security.authz import Access, Action, Operation, ResourceType


def quotas_denied(message: Any, version: int, error: ErrorCode) -> Message:
    return DescribeClientQuotasResponse(error_code=error, entries=None)


def altered_quotas_denied(message: Any, version: int, error: ErrorCode) -> Message:
    """Deny each entry with its entity."""
    return AlterClientQuotasResponse(
        entries=[AlterClientQuotasResponseEntryData(error, entity=entry.entity) for entry in message.entries]
    )


def users_denied(message: Any, version: int, error: ErrorCode) -> Message:
    """AlterUserScramCredentials has two arrays and one result per user."""
    users = dict.fromkeys(one.name for one in (*message.deletions, *message.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error) for user in users]
    )


def creates_tokens(access: Access) -> Mapping[str, Any]:
    """A token for another user needs CreateTokens on that user (KIP-373)."""

    def may_create(owner: str) -> bool:
        action = Action(Operation.CREATE_TOKENS, ResourceType.USER, owner)
        is_allowed = access.allows(action)
        access.tell(action, is_allowed)
        return is_allowed

    return {"may_create": may_create}


def sees_tokens(access: Access) -> Mapping[str, Any]:
    """A token of another user needs Describe on the token, or DescribeTokens on its owner."""

    def may_see(token: DelegationToken) -> bool:
        return access.allows_any(
            (
                Action(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id),
                Action(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
            )
        )

    return {"may_see": may_see}
