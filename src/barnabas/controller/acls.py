"""ACLs come and go. Each of a request succeeds or fails alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from barnabas.cluster.deltas import ACLS_PER_DELTA, AclsChanged, Delta
from barnabas.cluster.image import MetadataImage
from barnabas.config.setting import MAX_INT
from barnabas.controller.decision import Decided, check_room
from barnabas.errors import KafkaError
from barnabas.security.acl_filters import AclFilter, check_binding
from barnabas.security.acls import AclBinding


def create_acls(
    image: MetadataImage, wanted: Sequence[AclBinding], most: int = MAX_INT
) -> Decided[list[KafkaError | None]]:
    """Why each cannot be created, in the order of the request; one that is there already is in order. There may be
    `most` of them."""
    new = {acl: None for acl in wanted if acl not in image.acls}
    places = dict(zip(new, range(len(image.acls) + 1, len(image.acls) + len(new) + 1), strict=True))
    results = [_problem(acl, most - places.get(acl, 0)) for acl in wanted]
    added = {acl: None for acl, problem in zip(wanted, results, strict=True) if problem is None}
    return _changed((), [acl for acl in added if acl not in image.acls]), results


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> Decided[list[list[AclBinding] | KafkaError]]:
    """For each filter the ACLs that it matched, or why it cannot be used. An ACL may be matched by several."""
    results = [_matched(image, each) for each in filters]
    removed = {acl: None for found in results if not isinstance(found, KafkaError) for acl in found}
    return _changed(list(removed), ()), results


def _problem(acl: AclBinding, room: int) -> KafkaError | None:
    try:
        check_binding(acl)
        check_room(room, "ACLs", "barnabas.acls.max")
    except KafkaError as error:
        return error
    return None


def _matched(image: MetadataImage, wanted: AclFilter) -> list[AclBinding] | KafkaError:
    try:
        wanted.check()
    except KafkaError as error:
        return error
    return wanted.select(image.acls)


def _changed(removed: Collection[AclBinding], added: Collection[AclBinding]) -> list[Delta]:
    """In deltas that are not too long each."""
    gone, new = tuple(removed), tuple(added)
    return [
        AclsChanged(gone[start : start + ACLS_PER_DELTA], new[start : start + ACLS_PER_DELTA])
        for start in range(0, max(len(gone), len(new)), ACLS_PER_DELTA)
    ]
