"""Replicates the ACLs of mirrored topics from the source to the target.

A source ACL that covers a topic, by name, prefix or `*`, becomes a literal ACL of that topic in the target: a prefix
could cover unrelated topics there. The mirror removes only ACLs that it created, and only literal ones of topics it
mirrors now: clients with write access to the list of created ACLs in `__barnabas_mirror` cannot have other ACLs
deleted, and a promoted topic keeps its ACLs.
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
    """Return the ACLs for the target. `names` maps mirrored topics from source names to target names."""
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
    """Update the target's ACLs. Return an empty string, or the reason why ACLs are not mirrored."""
    try:
        source_acls = await describe_acls(source, _ALL_OF_TOPICS)
        target_acls = set(await describe_acls(target, _ALL_OF_TOPICS))
    except KafkaError as error:
        if error.code not in NOT_FOR_US:
            raise
        return f"ACLs are not mirrored: {error}"
    acls, made = wanted_acls(source_acls, names), _made(store)
    new, surplus = acls - target_acls, _of_topics(made & target_acls, set(names.values())) - acls
    remembered = (made & target_acls) | new
    if remembered != made:
        # Record first: an unrecorded ACL would never be removed; a recorded one that was not created is harmless.
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
    """Literal ACLs of these topics."""
    return {
        acl
        for acl in acls
        if acl.resource_type == ResourceType.TOPIC
        and acl.pattern_type == PatternType.LITERAL
        and acl.name in topics
    }
