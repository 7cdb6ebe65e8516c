"""Kafka's StandardAuthorizer: authorization by the ACLs of the cluster.

`judge` is a pure function of the ACLs and an action. The authorizer caches its results until the ACLs change: each
change starts a new generation with an empty cache (CVE-2024-27309).
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.cooperative import Steps, finish
from barnabas.security.authz.acl_index import NO_ACLS, AclIndex, AclRule
from barnabas.security.authz.acls import ALL_OPERATIONS, WILDCARD, AclBinding, PatternType
from barnabas.security.authz.audit import TOPIC as AUDIT_TOPIC
from barnabas.security.authz.authorizer import EVERYTHING, Action, Decisions, Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import Principal

REMEMBERED = 100_000
"""Cached decisions of all clients together, about 30 MB. Beyond that the cache is cleared."""

_ANY_NAME = "hardcode"  # resource name that Kafka checks before it searches for one (Authorizer, KIP-679)


class Policy(NamedTuple):
    """Authorization settings of the broker, in addition to the ACLs."""

    super_users: frozenset[str] = frozenset()
    """Principals as `User:alice`."""
    allows_without_acls: bool = False
    """`allow.everyone.if.no.acl.found`: resources without any ACL are open to everyone."""
    brokers: frozenset[str] = frozenset()
    """Principals of the cluster's brokers, which may perform cluster actions and write the audit log."""


class AclDecision(NamedTuple):
    """A decision and its reason."""

    is_allowed: bool
    rule: AclBinding | None = None
    """The deciding ACL; None if no ACL applies."""
    is_super_user: bool = False
    has_acls: bool = True
    """True if the resource has any ACL."""
    is_broker: bool = False


_OF_BROKERS = frozenset(
    {
        Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
        Action(Operation.WRITE, ResourceType.TOPIC, AUDIT_TOPIC),
    }
)


_NEEDS_LITERAL_ACL = frozenset(
    {Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS}
)
"""Operations on the audit topic that need an ACL with its exact name; wildcard and prefix ACLs do not grant them."""


def decide(policy: Policy, index: AclIndex, principal: str, host: str, action: Action) -> AclDecision:
    """Decide about an action. DENY overrides ALLOW regardless of the pattern; the default is to deny."""
    if principal in policy.super_users:
        return AclDecision(is_allowed=True, is_super_user=True)
    if principal in policy.brokers and action in _OF_BROKERS:
        return AclDecision(is_allowed=True, is_broker=True)
    operation, resource_type, name = action
    patterns = index.patterns(resource_type, name)
    needs_literal = (
        name == AUDIT_TOPIC and resource_type == ResourceType.TOPIC and operation in _NEEDS_LITERAL_ACL
    )
    if not patterns:
        return AclDecision(policy.allows_without_acls and not needs_literal, has_acls=False)
    allowing: AclRule | None = None
    for pattern in patterns:
        for rule in index.rules(pattern, principal):
            if rule.is_about(operation, host):
                if rule.is_denial:
                    return AclDecision(is_allowed=False, rule=rule.binding)
                if not needs_literal or rule.binding.name == name:
                    allowing = allowing or rule
    return AclDecision(allowing is not None, allowing.binding if allowing is not None else None)


def decide_by_type(
    policy: Policy,
    index: AclIndex,
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
) -> bool:
    """True if the principal may perform the operation on at least one resource of the type (KIP-679)."""
    if decide(policy, index, principal, host, Action(operation, resource_type, _ANY_NAME)).is_allowed:
        return True
    patterns = _Patterns()
    for rule in index.of_principal(principal, resource_type):
        if rule.binding.operation in (operation, ALL_OPERATIONS) and rule.is_about(operation, host):
            patterns.add(rule)
    return patterns.any_allowed()


class _Patterns:
    """Allowed and denied name patterns of a resource type."""

    def __init__(self) -> None:
        self._allowed: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        self._denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}

    def add(self, rule: AclRule) -> None:
        side = self._denied if rule.is_denial else self._allowed
        side[rule.binding.pattern_type].add(rule.binding.name)

    def any_allowed(self) -> bool:
        """True if an allowed pattern is not covered by a denied one."""
        literals, prefixes = self._allowed[PatternType.LITERAL], self._allowed[PatternType.PREFIXED]
        if WILDCARD in self._denied[PatternType.LITERAL]:
            return False
        if WILDCARD in literals:
            return True
        named = literals - self._denied[PatternType.LITERAL]
        return any(not self._is_covered(name) for name in (*named, *prefixes))

    def _is_covered(self, name: str) -> bool:
        denied = self._denied[PatternType.PREFIXED]
        return bool(denied) and any(name[:length] in denied for length in range(1, len(name) + 1))


class _Client(dict[Action, bool]):
    """Cached decisions about one client."""

    __slots__ = ("_generation", "_host", "_principal")

    def __init__(self, generation: _Generation, principal: Principal, host: str) -> None:
        super().__init__()
        self._generation = generation
        self._principal = str(principal)
        self._host = host

    def __missing__(self, action: Action) -> bool:
        generation = self._generation
        verdict = decide(generation.policy, generation.index, self._principal, self._host, action)
        if generation.may_remember():
            self[action] = verdict.is_allowed
        return verdict.is_allowed


class _Generation:
    """One version of the ACLs, and the decisions cached for it."""

    def __init__(self, policy: Policy, index: AclIndex) -> None:
        self.policy = policy
        self.index = index
        self.room = REMEMBERED
        self._clients: dict[tuple[Principal, str], Decisions] = {}
        self._anywhere: dict[tuple[Principal, str, int, int], bool] = {}

    def may_remember(self) -> bool:
        self.room -= 1
        return self.room >= 0

    def decisions(self, context: RequestContext) -> Decisions:
        key = context.principal, context.host
        known = self._clients.get(key)
        if known is None:
            is_super_user = str(context.principal) in self.policy.super_users
            known = self._clients[key] = EVERYTHING if is_super_user else _Client(self, *key)
            self.may_remember()
        return known

    def anywhere(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Cached `judge_by_type`, which reads every rule of the principal."""
        key = context.principal, context.host, operation, resource_type
        known = self._anywhere.get(key)
        if known is None:
            principal = str(context.principal)
            known = decide_by_type(self.policy, self.index, principal, context.host, operation, resource_type)
            if self.may_remember():
                self._anywhere[key] = known
        return known


class _Indexed(NamedTuple):
    acls: frozenset[AclBinding]
    lookup: AclIndex


class StandardAuthorizer:
    """Authorizes by the ACLs last passed to `use`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._now = _Indexed(frozenset(), NO_ACLS)
        self._prepared = self._now
        self._generation = _Generation(policy, NO_ACLS)

    @property
    def acls(self) -> frozenset[AclBinding]:
        return self._now.acls

    def use(self, acls: frozenset[AclBinding]) -> None:
        """Switch to these ACLs atomically: each request sees either the old or the new ones."""
        if self._prepared.acls is not acls:
            finish(self.preparing(acls))
        self._now = self._prepared
        self._generation = _Generation(self.policy, self._now.lookup)

    def preparing(self, acls: frozenset[AclBinding]) -> Steps[None]:
        """Index ACLs before `use`, in steps: 10,000 new ones take 0.1 s in total."""
        before = self._now
        removed = before.acls - acls
        yield
        added = acls - before.acls
        yield
        index = yield from before.lookup.changing(removed, added)
        self._prepared = _Indexed(acls, index)

    def decisions(self, context: RequestContext) -> Decisions:
        if self._generation.room <= 0:
            self._generation = _Generation(self.policy, self._now.lookup)
        return self._generation.decisions(context)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return self._generation.anywhere(context, operation, resource_type)

    def verdict(self, principal: str, host: str, action: Action) -> AclDecision:
        """Return the decision about a hypothetical client, with its reason."""
        return decide(self.policy, self._now.lookup, principal, host, action)
