"""ACLs come and go. Each of a request succeeds or fails alone; those that succeed are one entry of the metadata log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.cluster.deltas import AclsChanged, Delta
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.snapshots import ACLS_PER_DELTA
from barnabas.config.setting import MAX_INT
from barnabas.controller.decision import Decided, check_room
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz.acl_filters import AclFilter, check_binding
from barnabas.security.authz.acls import AclBinding
from barnabas.common.cooperative import Steps, pieces

MOST_CHANGED = 10_000
"""ACLs that one request creates or deletes: Kafka's MAX_RECORDS_PER_USER_OP. They take half a megabyte."""

MOST_MATCHED = 150_000
"""ACLs in the answer to one request, those counted twice that two of its filters match."""

COMPARED_AT_ONCE = 5_000
"""ACLs that a filter is compared with in one step: a millisecond."""

# -- creating -------------------------------------------------------------------------------------------


def checked(acl: AclBinding) -> AclBinding | KafkaError:
    """An ACL of a request, or why it cannot be kept, whatever there is."""
    try:
        check_binding(acl)
    except KafkaError as error:
        return error
    return acl


def create_acls(
    image: MetadataImage, wanted: Sequence[AclBinding | KafkaError], most: int = MAX_INT
) -> Decided[list[KafkaError | None]]:
    """Why each cannot be created, in the order of the request; one that is there already is in order. There may be
    `most` of them."""
    added: dict[AclBinding, None] = {}
    results: list[KafkaError | None] = []
    room = most - len(image.acls)
    for acl in wanted:
        if isinstance(acl, KafkaError):
            results.append(acl)
        elif acl in added or acl in image.acls:
            results.append(None)
        else:
            problem = _without_room(room - len(added) - 1)
            results.append(problem)
            if problem is None:
                added[acl] = None
    _check_bound(added)
    return _changed((), added), results


def _without_room(room: int) -> KafkaError | None:
    try:
        check_room(room, "ACLs", "barnabas.acls.max")
    except KafkaError as error:
        return error
    return None


# -- deleting -------------------------------------------------------------------------------------------

Match: TypeAlias = list[AclBinding] | KafkaError


class Matches(NamedTuple):
    """What filters match of the ACLs of some moment: all of them are compared, which takes long."""

    filters: Sequence[AclFilter]
    of: frozenset[AclBinding]
    found: list[Match]

    def among(self, acls: frozenset[AclBinding]) -> list[Match]:
        """What they match of other ACLs, which costs what has changed."""
        if acls is self.of:
            return self.found
        new = acls - self.of
        rows = zip(self.filters, self.found, strict=True)
        return [
            found if isinstance(found, KafkaError) else [*filter(acls.__contains__, found), *each.select(new)]
            for each, found in rows
        ]


def matching(acls: frozenset[AclBinding], filters: Sequence[AclFilter]) -> Steps[Matches]:
    """Compare filters with ACLs, in steps."""
    parts = list(pieces(acls, COMPARED_AT_ONCE))
    found: list[Match] = []
    room = MOST_MATCHED
    for each in filters:
        match = yield from _matching(parts, each)
        found.append(match)
        room -= 0 if isinstance(match, KafkaError) else len(match)
        if room < 0:
            raise _too_many(f"the filters match more than {MOST_MATCHED} ACLs together: send fewer of them")
    return Matches(filters, acls, found)


def _matching(parts: Sequence[Sequence[AclBinding]], wanted: AclFilter) -> Steps[Match]:
    try:
        wanted.check()
    except KafkaError as error:
        return error
    found: list[AclBinding] = []
    for part in parts:
        found += wanted.select(part)
        yield
    return found


def delete_acls(image: MetadataImage, matches: Matches) -> Decided[list[Match]]:
    """For each filter the ACLs that it matched, or why it cannot be used. An ACL may be matched by several."""
    results = matches.among(image.acls)
    removed = {acl: None for found in results if not isinstance(found, KafkaError) for acl in found}
    _check_bound(removed)
    return _changed(removed, ()), results


# -- both -----------------------------------------------------------------------------------------------


def _check_bound(changed: Collection[AclBinding]) -> None:
    if len(changed) > MOST_CHANGED:
        raise _too_many(
            f"at most {MOST_CHANGED} ACLs are changed in one request, and these are {len(changed)}"
        )


def _too_many(text: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)


def _changed(removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> list[Delta]:
    """In deltas that are not too long each."""
    gone, new = tuple(removed), tuple(added)
    return [
        AclsChanged(gone[start : start + ACLS_PER_DELTA], new[start : start + ACLS_PER_DELTA])
        for start in range(0, max(len(gone), len(new)), ACLS_PER_DELTA)
    ]
