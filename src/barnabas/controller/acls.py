"""Creation and deletion of ACLs. Each element of a request succeeds or fails separately; the changes are one
entry of the
metadata log.

A request may have 150,000 elements, so its changes are planned in steps before the controller decides
(`create_acls`,
`delete_acls`). The decision (`change_acls`) takes a plan for the ACLs of its image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from barnabas.cluster import ACLS_PER_DELTA
from barnabas.cluster.deltas import AclsChanged, Delta
from barnabas.cluster.image import MetadataImage
from barnabas.common.cooperative import PIECE, Steps, finish, pieces
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.setting import MAX_INT
from barnabas.controller.decision import Decided, check_room
from barnabas.security.authz import AclFilter, check_binding
from barnabas.security.authz.acls import AclBinding

MAX_CHANGED = 10_000
"""Limit of ACLs that one request creates or deletes:

Kafka's MAX_RECORDS_PER_USER_OP. They take half a megabyte.
"""

MAX_MATCHED = 150_000
"""Limit of ACLs in one response; an ACL that two filters match counts twice."""

COMPARED_AT_ONCE = 5_000
"""ACLs that a filter is compared with in one step, which takes a millisecond."""


class AclPlan(NamedTuple):
    """The changes of one request, planned in steps for one set of ACLs.

    `results` has an entry for each element of the request. `again` plans them for another set of ACLs.
    """

    acls: frozenset[AclBinding]
    results: list[Any]
    again: Callable[[frozenset[AclBinding]], Steps[AclPlan]]
    removed: Collection[AclBinding] = ()
    added: Collection[AclBinding] = ()


def change_acls(
    image: MetadataImage, plan: AclPlan, *, in_one_step: bool = True
) -> Decided[list[Any] | frozenset[AclBinding]]:
    """The results of a plan. A plan for other ACLs than those of the image is repeated if that takes one
    step; otherwise
    nothing changes and the ACLs of the image are returned, so that the caller can repeat it in steps.
    """
    if image.acls is not plan.acls:
        if not in_one_step:
            return [], image.acls
        plan = finish(plan.again(image.acls))
    _check_bound(plan.removed or plan.added)
    return _changed(plan.removed, plan.added), plan.results


# -- creating -------------------------------------------------------------------------------------------


def checked(acl: AclBinding) -> AclBinding | KafkaError:
    """Validate an ACL of a request, without regard to existing ACLs."""
    try:
        check_binding(acl)
    except KafkaError as error:
        return error
    return acl


def create_acls(
    acls: frozenset[AclBinding], requested: Sequence[AclBinding | KafkaError], limit: int = MAX_INT
) -> Steps[AclPlan]:
    """Plan the creation of ACLs; the results are in the order of the request. At most `limit` ACLs may exist."""
    added: dict[AclBinding, None] = {}
    results: list[KafkaError | None] = []
    room = limit - len(acls)
    for number, acl in enumerate(requested, 1):
        if not number % PIECE:
            yield
        if isinstance(acl, KafkaError):
            results.append(acl)
        elif acl in added or acl in acls:
            results.append(None)
        else:
            problem = _without_room(room - len(added) - 1)
            results.append(problem)
            if problem is None:
                added[acl] = None
    return AclPlan(acls, results, lambda others: create_acls(others, requested, limit), added=added)


def _without_room(room: int) -> KafkaError | None:
    try:
        check_room(room, "ACLs", "barnabas.acls.max")
    except KafkaError as error:
        return error
    return None


# -- deleting -------------------------------------------------------------------------------------------

Match: TypeAlias = list[AclBinding] | KafkaError


def delete_acls(acls: frozenset[AclBinding], filters: Sequence[AclFilter]) -> Steps[AclPlan]:
    """Plan for each filter the ACLs that it matches, or why it cannot be used. An ACL may be matched by several."""
    parts = list(pieces(acls, COMPARED_AT_ONCE))
    removed: dict[AclBinding, None] = {}
    found: list[Match] = []
    problems: dict[str, KafkaError] = {}
    room = MAX_MATCHED
    for number, each in enumerate(filters, 1):
        if not number % PIECE:
            yield
        if (problem := _problem(each)) is not None:
            found.append(problems.setdefault(problem.message, problem))
            continue
        match = yield from _matching(parts, each, removed)
        found.append(match)
        room -= len(match)
        if room < 0:
            raise _too_many(f"the filters match more than {MAX_MATCHED} ACLs together: send fewer of them")
    return AclPlan(acls, found, lambda others: _delete_others(others, acls, filters, found), removed)


def _problem(acl_filter: AclFilter) -> KafkaError | None:
    try:
        acl_filter.check()
    except KafkaError as error:
        return error.with_traceback(None)  # it is kept, and would keep all the frames of its traceback
    return None


def _matching(
    parts: Sequence[Sequence[AclBinding]], acl_filter: AclFilter, removed: dict[AclBinding, None]
) -> Steps[list[AclBinding]]:
    found: list[AclBinding] = []
    for part in parts:
        some = acl_filter.select(part)
        found += some
        removed.update(dict.fromkeys(some))
        yield
    return found


def _delete_others(
    acls: frozenset[AclBinding],
    before: frozenset[AclBinding],
    filters: Sequence[AclFilter],
    matches: Sequence[Match],
) -> Steps[AclPlan]:
    """Plan for other ACLs, which costs what has changed since those before were compared."""
    parts = list(pieces(acls - before, COMPARED_AT_ONCE))
    removed: dict[AclBinding, None] = {}
    found: list[Match] = []
    for number, (each, match) in enumerate(zip(filters, matches, strict=True), 1):
        if not number % PIECE:
            yield
        if isinstance(match, KafkaError):
            found.append(match)
            continue
        still: list[AclBinding] = []
        for piece in pieces(match, COMPARED_AT_ONCE):
            still += filter(acls.__contains__, piece)
            yield
        removed.update(dict.fromkeys(still))
        found.append(still + (yield from _matching(parts, each, removed)))
    return AclPlan(acls, found, lambda others: _delete_others(others, acls, filters, found), removed)


# -- both -----------------------------------------------------------------------------------------------


def _check_bound(changed: Collection[AclBinding]) -> None:
    if len(changed) > MAX_CHANGED:
        raise _too_many(
            f"at most {MAX_CHANGED} ACLs are changed in one request, and these are {len(changed)}"
        )


def _too_many(text: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)


def _changed(removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> list[Delta]:
    """In deltas that are not too long each."""
    deleted, new = tuple(removed), tuple(added)
    return [
        AclsChanged(deleted[start : start + ACLS_PER_DELTA], new[start : start + ACLS_PER_DELTA])
        for start in range(0, max(len(deleted), len(new)), ACLS_PER_DELTA)
    ]
