"""Delegation tokens (KIP-48): an authenticated client gets a secret with which others authenticate as that client.

- CreateDelegationToken, versions 1 to 3: version 3 can ask for a token of another owner (KIP-373).
- RenewDelegationToken and ExpireDelegationToken, versions 1 and 2: by owner, requester and renewers.
- DescribeDelegationToken, versions 1 to 3: the tokens of some owners, or all that the client may see.

They are refused to clients that have not authenticated, or did so with a token: a token must not create others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.common.clock import Clock
from barnabas.common.cooperative import Steps, pieces
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller import NewToken, TokenRules
from barnabas.controller import delegation_tokens as decide
from barnabas.handlers.needs import HasConfig, HasController, HasImage
from barnabas.network.requests import RequestTurn, Result, access_of, run_or_continue_in_slices
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.security import ANONYMOUS, USER, Principal, RequestContext
from barnabas.security.authn import DelegationToken, TokenSecrets, is_concerned
from barnabas.security.authz import Access, Action, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.network.requests import Request

NO_TIME = -1
REQUESTERS_SINCE = 3  # the first version whose responses have the requester of a token (KIP-373)


class HasSecrets(Protocol):
    @property
    def secrets(self) -> TokenSecrets | None:
        """None without delegation.token.secret.key."""
        ...


class TokensNeeds(HasConfig, HasController, HasImage, Protocol):
    """Broker attributes used by the token handlers."""

    @property
    def clock(self) -> Clock: ...
    @property
    def delegation_tokens(self) -> HasSecrets: ...


def _secrets(broker: TokensNeeds, context: RequestContext) -> TokenSecrets:
    """Return the secrets; raise KafkaError unless this client may request tokens. Clients of a listener
    without authentication or client certificates are ANONYMOUS.
    """
    principal = context.principal
    if principal.is_token_authenticated or principal[:2] == ANONYMOUS[:2]:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if broker.delegation_tokens.secrets is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return broker.delegation_tokens.secrets


def _rules(broker: TokensNeeds) -> TokenRules:
    config = broker.config
    return TokenRules(
        config["delegation.token.max.lifetime.ms"],
        config["delegation.token.expiry.time.ms"],
        config["barnabas.delegation.tokens.max"],
    )


# -- CreateDelegationToken ------------------------------------------------------------------------------


async def create_delegation_token(
    broker: TokensNeeds, request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = request.context.principal
    owner = requester
    if message.owner_principal_name:
        owner = Principal(message.owner_principal_type or "", message.owner_principal_name)
    try:
        token_secrets = _secrets(broker, request.context)
        wanted = _new_token(message, requester, owner, access_of(request))
        now = broker.clock.now_ms()
        token = await broker.controller.submit(
            lambda image: decide.create_token(image, wanted, _rules(broker), now)
        )
    except KafkaError as error:
        response = CreateDelegationTokenResponse(
            error.code, issue_timestamp_ms=NO_TIME, expiry_timestamp_ms=NO_TIME, max_timestamp_ms=NO_TIME
        )
    else:
        response = _created(token, token_secrets.of(token.token_id))
    response.principal_type, response.principal_name = owner[:2]
    if request.version >= REQUESTERS_SINCE:
        response.token_requester_principal_type, response.token_requester_principal_name = requester[:2]
    return response


def _new_token(
    message: CreateDelegationTokenRequest,
    requester: Principal,
    owner: Principal,
    access: Access,
) -> NewToken:
    if owner[:2] != requester[:2] and not _may_create(access, str(owner)):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = [Principal(each.principal_type, each.principal_name) for each in message.renewers]
    if any(each.type != USER for each in renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return NewToken(str(owner), str(requester), tuple(map(str, renewers)), message.max_lifetime_ms)


def _may_create(access: Access, owner: str) -> bool:
    """A token for another user needs CreateTokens on that user (KIP-373)."""
    action = Action(Operation.CREATE_TOKENS, ResourceType.USER, owner)
    is_allowed = access.allows(action)
    access.tell(action, is_allowed)
    return is_allowed


def _created(token: DelegationToken, secret: bytes) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
    )


# -- RenewDelegationToken, ExpireDelegationToken --------------------------------------------------------


async def renew_delegation_token(
    broker: TokensNeeds, request: Request, message: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    principal, now = str(request.context.principal), broker.clock.now_ms()
    try:
        token_id = await _token_id(broker, request.context, bytes(message.hmac))
        expires = await broker.controller.submit(
            lambda image: decide.renew_token(
                image, token_id, principal, message.renew_period_ms, _rules(broker), now
            )
        )
    except KafkaError as error:
        return RenewDelegationTokenResponse(error.code, _no_time(error))
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires)


async def expire_delegation_token(
    broker: TokensNeeds, request: Request, message: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    principal, now = str(request.context.principal), broker.clock.now_ms()
    try:
        token_id = await _token_id(broker, request.context, bytes(message.hmac))
        expires = await broker.controller.submit(
            lambda image: decide.expire_token(image, token_id, principal, message.expiry_time_period_ms, now)
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error.code, _no_time(error))
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires)


def _no_time(error: KafkaError) -> int:
    """Kafka's broker and its controller have different messages for it."""
    return NO_TIME if error.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0


async def _token_id(broker: TokensNeeds, context: RequestContext, secret: bytes) -> str | None:
    """Return the id of the token with this secret; None if it does not exist, which the decision rejects."""
    finding = _secrets(broker, context).finding(broker.controller.image.delegation_tokens, secret)
    return await RequestTurn().run(finding)


# -- DescribeDelegationToken ----------------------------------------------------------------------------


def describe_delegation_token(
    broker: TokensNeeds, request: Request, message: DescribeDelegationTokenRequest
) -> Result[DescribeDelegationTokenResponse]:
    """Describe tokens: a null list of owners means all, an empty one none."""
    try:
        token_secrets = _secrets(broker, request.context)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error.code)
    owners = None if message.owners is None else set(map(_owner, message.owners))
    principal, access = str(request.context.principal), access_of(request)

    def is_shown(token: DelegationToken) -> bool:
        concerned = {token.owner, token.requester, *token.renewers}
        is_wanted = owners is None or not concerned.isdisjoint(owners)
        return is_wanted and (is_concerned(token, principal) or _may_see(access, token))

    tells_requester = request.version >= REQUESTERS_SINCE

    def described(token: DelegationToken) -> DescribedDelegationToken:
        return _described(token, token_secrets.of(token.token_id), tells_requester=tells_requester)

    tokens = filter(is_shown, broker.image.delegation_tokens.values())
    return run_or_continue_in_slices(request, _describing(map(described, tokens)))


def _may_see(access: Access, token: DelegationToken) -> bool:
    """A token of another user needs Describe on the token, or DescribeTokens on its owner."""
    of_token = Action(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
    return access.allows_any((of_token, Action(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)))


def _describing(tokens: Iterable[DescribedDelegationToken]) -> Steps[DescribeDelegationTokenResponse]:
    response = DescribeDelegationTokenResponse()
    for number, piece in enumerate(pieces(tokens)):
        if number:
            yield
        response.tokens += piece
    return response


def _described(token: DelegationToken, secret: bytes, *, tells_requester: bool) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *_parts(token.owner),
        *(_parts(token.requester) if tells_requester else ("", "")),
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.token_id,
        secret,
        [DescribedDelegationTokenRenewer(*_parts(each)) for each in token.renewers],
    )


def _owner(one: DescribeDelegationTokenOwner) -> str:
    return str(Principal(one.principal_type, one.principal_name))


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
