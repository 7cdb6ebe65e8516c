"""Denials of requests about users and quotas; `handlers/authorization` has the table."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.protocol.schema import Message


def quotas_denied(message: Message, version: int, error: ErrorCode) -> Message:
    return DescribeClientQuotasResponse(error_code=error, entries=None)


def altered_quotas_denied(message: AlterClientQuotasRequest, version: int, error: ErrorCode) -> Message:
    """Deny each entry with its entity."""
    return AlterClientQuotasResponse(
        entries=[AlterClientQuotasResponseEntryData(error, entity=entry.entity) for entry in message.entries]
    )


def users_denied(message: AlterUserScramCredentialsRequest, version: int, error: ErrorCode) -> Message:
    """AlterUserScramCredentials has two arrays and one result per user."""
    users = dict.fromkeys(
        [each.name for each in message.deletions] + [each.name for each in message.upsertions]
    )
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error) for user in users]
    )
