"""SCRAM credentials are set and deleted (KIP-554). Each user of a request succeeds or fails alone."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.cluster.deltas import Delta, ScramCredentialChanged, ScramDecoyKeyCreated
from barnabas.cluster.image import MetadataImage, ScramUser
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.setting import MAX_INT
from barnabas.controller.decision import Decided, check_room
from barnabas.security.authn import ScramCredential, ScramMechanism

DECOY_KEY_BYTES = 32
_MECHANISMS = frozenset(ScramMechanism)


@dataclass(frozen=True, slots=True)
class Deletion:
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A credential, or why there is none: it was computed before."""

    user: str
    mechanism: int
    credential: ScramCredential | KafkaError = field(repr=False)


Alteration = Deletion | Upsertion
Results = dict[str, KafkaError | None]


def alter_credentials(
    image: MetadataImage, alterations: Sequence[Alteration], limit: int = MAX_INT
) -> Decided[Results]:
    """Each user may occur once; if an alteration of a user is rejected, none of that user is applied. At most `limit`
    credentials may exist."""
    results: Results = {}
    deltas: dict[str, Delta] = {}
    room = limit - len(image.scram_credentials)
    for one in alterations:
        if one.user not in results:
            is_known = ScramUser(one.user, one.mechanism) in image.scram_credentials
            is_new = isinstance(one, Upsertion) and not is_known
            room -= is_new
            results[one.user] = _problem(image, one, room if is_new else 0)
            deltas[one.user] = _delta(one)
        elif results[one.user] is None:
            results[one.user] = KafkaError(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
    accepted = [deltas[user] for user, problem in results.items() if problem is None]
    if accepted and not image.scram_decoy_key:
        accepted.insert(0, ScramDecoyKeyCreated(secrets.token_bytes(DECOY_KEY_BYTES)))
    return accepted, results


def check_user(name: str, mechanism: int) -> None:
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _problem(image: MetadataImage, one: Alteration, room: int) -> KafkaError | None:
    try:
        check_user(one.user, one.mechanism)
        check_room(room, "SCRAM credentials", "barnabas.scram.credentials.max")
    except KafkaError as error:
        return error
    if isinstance(one, Upsertion):
        return one.credential if isinstance(one.credential, KafkaError) else None
    if ScramUser(one.user, one.mechanism) not in image.scram_credentials:
        return KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return None


def _delta(one: Alteration) -> Delta:
    credential = one.credential if isinstance(one, Upsertion) else None
    return ScramCredentialChanged(
        one.user, one.mechanism, None if isinstance(credential, KafkaError) else credential
    )
