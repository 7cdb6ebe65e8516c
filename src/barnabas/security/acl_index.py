"""ACLs by the resource that they are about, so that a decision looks at those of the resource and the principal only.

An index is never changed: a change of ACLs makes another one, which shares what stays the same. Whoever holds an index
holds the ACLs of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from barnabas.security.acl_hosts import HostPattern, host_pattern, matches
from barnabas.security.acls import ALL_OPERATIONS, EVERYONE, WILDCARD, AclBinding, PatternType, Permission
from barnabas.security.authorizer import Operation

# An ALLOW for one of these is an ALLOW to look, too. A DENY is about nothing but itself.
_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_EVERY_OPERATION = -1  # all bits
_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)


class AclRule(NamedTuple):
    """An ACL, ready to be compared."""

    binding: AclBinding
    operations: int
    """Those that it is about, a bit for each; with those that it implies."""
    host: HostPattern

    @property
    def is_denial(self) -> bool:
        return self.binding.permission != Permission.ALLOW

    def is_about(self, operation: int, host: str) -> bool:
        return bool(self.operations >> operation & 1) and matches(self.host, host)


def rule_of(binding: AclBinding) -> AclRule:
    return AclRule(binding, _operations(binding), host_pattern(binding.host))


def _operations(binding: AclBinding) -> int:
    if binding.operation == ALL_OPERATIONS:
        return _EVERY_OPERATION
    implied = (
        each
        for each, by in _IMPLIED.items()
        if binding.operation in by and binding.permission == Permission.ALLOW
    )
    return 1 << binding.operation | sum(1 << each for each in implied)


Rules = tuple[AclRule, ...]
Pattern = tuple[int, int, str]  # type of resource, type of pattern, name
ByPattern = Mapping[tuple[Pattern, str], Rules]  # by principal, too
ByPrincipal = Mapping[tuple[int, str], Rules]  # by type of resource and principal
K = TypeVar("K")


class AclIndex:
    """Immutable; `changed` makes another one."""

    __slots__ = ("_by_pattern", "_by_principal", "_lengths", "_patterns")

    def __init__(self, by_pattern: ByPattern, by_principal: ByPrincipal) -> None:
        self._by_pattern = by_pattern
        self._by_principal = by_principal
        self._patterns = frozenset(pattern for pattern, _ in by_pattern)
        self._lengths = _lengths(self._patterns)

    def changed(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> AclIndex:
        removed, rules = tuple(removed), tuple(map(rule_of, added))
        return AclIndex(
            _changed(self._by_pattern, _pattern_and_principal, removed, rules),
            _changed(self._by_principal, _type_and_principal, removed, rules),
        )

    def patterns(self, resource_type: int, name: str) -> list[Pattern]:
        """Patterns with ACLs that the name of a resource matches, the most exact first."""
        lengths = self._lengths.get(resource_type, ())
        candidates = (
            (resource_type, _LITERAL, name),
            *((resource_type, _PREFIXED, name[:length]) for length in lengths if length <= len(name)),
            (resource_type, _LITERAL, WILDCARD),
        )
        return [pattern for pattern in candidates if pattern in self._patterns]

    def rules(self, pattern: Pattern, principal: str) -> Iterator[AclRule]:
        """Those for the principal and for everyone."""
        yield from self._by_pattern.get((pattern, principal), ())
        yield from self._by_pattern.get((pattern, EVERYONE), ())

    def of_principal(self, principal: str, resource_type: int) -> Rules:
        """The ACLs for a principal and for everyone on resources of a type."""
        own = self._by_principal.get((resource_type, principal), ())
        return (*own, *self._by_principal.get((resource_type, EVERYONE), ()))


def _lengths(patterns: Iterable[Pattern]) -> dict[int, tuple[int, ...]]:
    """How long the prefixes on each type of resource are: a name is cut to each of these, and looked up."""
    found: dict[int, set[int]] = {}
    for resource_type, pattern_type, name in patterns:
        if pattern_type == _PREFIXED:
            found.setdefault(resource_type, set()).add(len(name))
    return {key: tuple(sorted(lengths, reverse=True)) for key, lengths in found.items()}


def _pattern_and_principal(binding: AclBinding) -> tuple[Pattern, str]:
    return (binding.resource_type, binding.pattern_type, binding.name), binding.principal


def _type_and_principal(binding: AclBinding) -> tuple[int, str]:
    return binding.resource_type, binding.principal


def _changed(
    before: Mapping[K, Rules],
    key_of: Callable[[AclBinding], K],
    removed: Iterable[AclBinding],
    added: Iterable[AclRule],
) -> dict[K, Rules]:
    """A copy, in which the rules of each key that changes are put together anew from those that stay."""
    gone: dict[K, set[AclBinding]] = {}
    new: dict[K, list[AclRule]] = {}
    for binding in removed:
        gone.setdefault(key_of(binding), set()).add(binding)
    for rule in added:
        new.setdefault(key_of(rule.binding), []).append(rule)
    after = dict(before)
    for key in gone.keys() | new.keys():
        leaving = gone.get(key, ())
        kept = (rule for rule in after.pop(key, ()) if rule.binding not in leaving)
        rules = (*kept, *new.get(key, ()))
        if rules:
            after[key] = rules
    return after


NO_ACLS = AclIndex({}, {})
