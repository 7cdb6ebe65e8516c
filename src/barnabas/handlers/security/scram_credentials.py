"""SCRAM users (KIP-554).

- DescribeUserScramCredentials, version 0: mechanisms and iterations of users, never their secrets.
- AlterUserScramCredentials, version 0: passwords arrive salted; a user may be named once in a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import ScramUser
from barnabas.cluster.zookeeper import check_hides_secrets
from barnabas.common.cooperative import Steps, pieces
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller import scram_credentials as decide
from barnabas.controller.scram_credentials import Alteration, Deletion, Results, Upsertion
from barnabas.handlers.needs import HasConfig, HasController, HasImage
from barnabas.network.requests import RequestTurn, Result, run_or_continue_in_slices
from barnabas.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from barnabas.security.authn import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_from_salted,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

MAX_ALTERATIONS = 1000  # in one request; Kafka's bound is 10,000 records

Credentials = Mapping[ScramUser, ScramCredential]


class ScramNeeds(HasConfig, HasController, HasImage, Protocol):
    """Broker attributes used by the SCRAM handlers."""


# -- DescribeUserScramCredentials -----------------------------------------------------------------------


def describe_user_scram_credentials(
    broker: ScramNeeds, request: Request, message: DescribeUserScramCredentialsRequest
) -> Result[DescribeUserScramCredentialsResponse]:
    """Describe users; no names means all."""
    credentials = broker.image.scram_credentials
    if message.users:
        counts = Counter(user.name for user in message.users)
    else:
        counts = Counter({user.name: 1 for user in credentials})
    return run_or_continue_in_slices(request, _describing(credentials, counts))


def _describing(
    credentials: Credentials, counts: Mapping[str, int]
) -> Steps[DescribeUserScramCredentialsResponse]:
    response = DescribeUserScramCredentialsResponse()
    for number, piece in enumerate(pieces(counts.items())):
        if number:
            yield
        response.results += [_described(credentials, name, count) for name, count in piece]
    return response


def _described(credentials: Credentials, name: str, count: int) -> DescribeUserScramCredentialsResult:
    try:
        infos = _infos(credentials, name, count)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(name, error.code, error.message)
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)


def _infos(credentials: Credentials, name: str, count: int) -> list[CredentialInfo]:
    infos = [
        CredentialInfo(mechanism, found.iterations)
        for mechanism in ScramMechanism
        if (found := credentials.get(ScramUser(name, mechanism))) is not None
    ]
    if count > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if not infos:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
        )
    return infos


# -- AlterUserScramCredentials --------------------------------------------------------------------------


async def alter_user_scram_credentials(
    broker: ScramNeeds, request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    results: Results
    try:
        _check_size(message)
        check_hides_secrets(broker.config)
        alterations = await _alterations(message)
        limit = broker.config["barnabas.scram.credentials.max"]
        results = await broker.controller.submit(
            lambda image: decide.alter_credentials(image, alterations, limit)
        )
    except KafkaError as error:
        names = [one.name for one in message.deletions] + [one.name for one in message.upsertions]
        results = dict.fromkeys(names, error)
    return AlterUserScramCredentialsResponse(
        results=await RequestTurn().collect(results.items(), lambda item: _result(*item))
    )


def _check_size(message: AlterUserScramCredentialsRequest) -> None:
    if len(message.deletions) + len(message.upsertions) > MAX_ALTERATIONS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"a request may alter at most {MAX_ALTERATIONS} credentials"
        )


async def _alterations(message: AlterUserScramCredentialsRequest) -> list[Alteration]:
    """Put deletions first, as in Kafka. Each upsertion takes some hashes."""
    removed_topics: Iterable[Alteration] = [Deletion(one.name, one.mechanism) for one in message.deletions]
    return [*removed_topics, *await RequestTurn().collect(message.upsertions, _upsertion)]


def _upsertion(wanted: ScramCredentialUpsertion) -> Upsertion:
    return Upsertion(wanted.name, wanted.mechanism, _credential(wanted))


def _credential(wanted: ScramCredentialUpsertion) -> ScramCredential | KafkaError:
    try:
        decide.check_user(wanted.name, wanted.mechanism)
        mechanism = ScramMechanism(wanted.mechanism)
        _check_upsertion(wanted)
    except KafkaError as error:
        return error
    return credential_from_salted(
        mechanism, bytes(wanted.salt), bytes(wanted.salted_password), wanted.iterations
    )


def _check_upsertion(wanted: ScramCredentialUpsertion) -> None:
    if wanted.iterations < MIN_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if wanted.iterations > MAX_ITERATIONS:
        raise _unacceptable("Too many iterations")
    # As in Kafka the length is not checked: HMAC accepts keys of any length, and kafka-go's tests send short ones.
    if not wanted.salted_password:
        raise _unacceptable("The salted password is empty")


def _unacceptable(text: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, error_message=None)
    return AlterUserScramCredentialsResult(user, error.code, error.message)
