"""ACLs of mirrored topics follow those of the source.

Whatever covers a topic at the source, by its name, by a prefix or by `*`, becomes an ACL of exactly that topic in the
target: a prefix there could cover topics that are none of the source's. Only ACLs that the mirror has made are removed
again, and only those of exactly a topic that it mirrors now. Who may write `__barnabas_mirror`, where they are listed,
cannot have others deleted, and a topic that was promoted keeps those that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import astuple, replace

from barnabas.client import Client
from barnabas.client.access import create_acls, delete_acls, describe_acls
from barnabas.client.mirrors.store import ACLS, MirrorStore
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz import AclFilter, ResourceType
from barnabas.security.authz.acls import WILDCARD, AclBinding, PatternType

_ALL_OF_TOPICS = AclFilter(resource_type=int(ResourceType.TOPIC))
NOT_FOR_US = frozenset({ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


def wanted_acls(acls: Iterable[AclBinding], names: Mapping[str, str]) -> set[AclBinding]:
    """`names`: of mirrored topics, from the source's to the target's."""
    found: set[AclBinding] = set()
    for acl in acls:
        if acl.resource_type != ResourceType.TOPIC:
            continue
        for source in _covered(acl, names):
            found.add(replace(acl, name=names[source], pattern_type=int(PatternType.LITERAL)))
    return found


def _covered(acl: AclBinding, names: Mapping[str, str]) -> list[str]:
    if acl.pattern_type == PatternType.PREFIXED:
        return [name for name in names if name.startswith(acl.name)]
    if acl.name == WILDCARD:
        return list(names)
    return [acl.name] if acl.name in names else []


async def follow_acls(source: Client, target: Client, store: MirrorStore, names: Mapping[str, str]) -> str:
    """Empty, or a sentence: why they are not followed."""
    try:
        theirs = await describe_acls(source, _ALL_OF_TOPICS)
        ours = set(await describe_acls(target, _ALL_OF_TOPICS))
    except KafkaError as error:
        if error.code not in NOT_FOR_US:
            raise
        return f"ACLs are not mirrored: {error}"
    wanted, made = wanted_acls(theirs, names), _made(store)
    new, surplus = wanted - ours, _of_topics(made & ours, set(names.values())) - wanted
    remembered = (made & ours) | new
    if remembered != made:
        # Written down first: one that is written down and was never made is removed by nobody.
        await store.put({(ACLS,): [astuple(acl) for acl in sorted(remembered)]})
    try:
        if new:
            await create_acls(target, sorted(new))
        if surplus:
            await delete_acls(target, [AclFilter(*astuple(acl)) for acl in sorted(surplus)])
    except KafkaError as error:
        if error.code not in NOT_FOR_US:
            raise
        return f"ACLs are not mirrored: {error}"
    return ""


def _made(store: MirrorStore) -> set[AclBinding]:
    return set(store.get(ACLS, value_type=list[AclBinding]) or ())


def _of_topics(acls: set[AclBinding], topics: set[str]) -> set[AclBinding]:
    """Those of exactly one of these topics."""
    return {
        acl
        for acl in acls
        if acl.resource_type == ResourceType.TOPIC
        and acl.pattern_type == PatternType.LITERAL
        and acl.name in topics
    }
