"""Index of ACLs by resource and principal, so that a decision reads only the ACLs that can apply.

An index is immutable: a change of the ACLs creates a new index that shares the unchanged parts. A reference to an index
is therefore a snapshot of the ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from barnabas.common.cooperative import Steps, finish, pieces
from barnabas.security.authz.acls import (
    ALL_OPERATIONS,
    EVERYONE,
    WILDCARD,
    AclBinding,
    HostPattern,
    PatternType,
    Permission,
    host_pattern,
    matches,
)
from barnabas.security.authz.authorizer import Operation

# An ALLOW of one of these operations implies the key's operation. A DENY implies nothing.
_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_EVERY_OPERATION = -1  # all bits
STEP = 100
"""ACLs added or removed per step, which takes less than a millisecond."""
_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)


class AclRule(NamedTuple):
    """An ACL, prepared for matching."""

    binding: AclBinding
    operations: int
    """Bit mask of the operations it covers, including implied ones."""
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


Rules = dict[AclBinding, AclRule]
Pattern = tuple[int, int, str]  # type of resource, type of pattern, name
PatternOfPrincipal = tuple[Pattern, str]
TypeOfPrincipal = tuple[int, str]  # type of resource, principal
PrefixLength = tuple[int, int]  # type of resource, length of a prefix
K = TypeVar("K")


class _Tables(NamedTuple):
    """Content of an index. A copy costs four shallow dictionary copies; the values stay shared."""

    by_pattern: dict[PatternOfPrincipal, Rules]
    by_principal: dict[TypeOfPrincipal, Rules]
    patterns: dict[Pattern, int]
    """Number of rules per pattern."""
    prefixes: dict[PrefixLength, int]
    """Number of patterns per prefix length."""


class AclIndex:
    """Immutable; `changing` creates a modified index."""

    __slots__ = ("_lengths", "_tables")

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._lengths = _lengths(tables.prefixes)

    def changed(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> AclIndex:
        return finish(self.changing(removed, added))

    def changing(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> Steps[AclIndex]:
        """Create a modified index, in steps. The cost depends on the number of changes; this index is not modified."""
        draft = _Draft(self._tables)
        yield
        for piece in pieces(removed, STEP):
            for binding in piece:
                draft.remove(binding)
            yield
        for piece in pieces(added, STEP):
            for binding in piece:
                draft.add(binding)
            yield
        return AclIndex(draft.tables)

    def patterns(self, resource_type: int, name: str) -> list[Pattern]:
        """Patterns with ACLs that match a resource name, most specific first."""
        lengths = self._lengths.get(resource_type, ())
        candidates = (
            (resource_type, _LITERAL, name),
            *((resource_type, _PREFIXED, name[:length]) for length in lengths if length <= len(name)),
            (resource_type, _LITERAL, WILDCARD),
        )
        patterns = self._tables.patterns
        return [pattern for pattern in candidates if pattern in patterns]

    def rules(self, pattern: Pattern, principal: str) -> Iterator[AclRule]:
        """Rules of a pattern for the principal and for everyone."""
        by_pattern = self._tables.by_pattern
        yield from by_pattern.get((pattern, principal), _NO_RULES).values()
        yield from by_pattern.get((pattern, EVERYONE), _NO_RULES).values()

    def of_principal(self, principal: str, resource_type: int) -> Iterator[AclRule]:
        """Rules for a principal and for everyone on resources of a type."""
        by_principal = self._tables.by_principal
        yield from by_principal.get((resource_type, principal), _NO_RULES).values()
        yield from by_principal.get((resource_type, EVERYONE), _NO_RULES).values()


class _Draft:
    """Copy-on-write tables: the rules of a key are copied when they are first modified."""

    def __init__(self, before: _Tables) -> None:
        self.tables = _Tables(*(dict(table) for table in before))  # type: ignore[arg-type]  # a tuple of dictionaries
        self._own: set[int] = set()  # ids of the dictionaries that no index shares

    def add(self, binding: AclBinding) -> None:
        pattern = _pattern(binding)
        rules = self._owned(self.tables.by_pattern, (pattern, binding.principal))
        if binding in rules:
            return
        rule = rules[binding] = rule_of(binding)
        self._owned(self.tables.by_principal, _type_and_principal(binding))[binding] = rule
        if _counted(self.tables.patterns, pattern, 1) == 1 and binding.pattern_type == _PREFIXED:
            _counted(self.tables.prefixes, _prefix_length(binding), 1)

    def remove(self, binding: AclBinding) -> None:
        pattern = _pattern(binding)
        if binding not in self.tables.by_pattern.get((pattern, binding.principal), _NO_RULES):
            return
        self._discard(self.tables.by_pattern, (pattern, binding.principal), binding)
        self._discard(self.tables.by_principal, _type_and_principal(binding), binding)
        if _counted(self.tables.patterns, pattern, -1) == 0 and binding.pattern_type == _PREFIXED:
            _counted(self.tables.prefixes, _prefix_length(binding), -1)

    def _discard(self, table: dict[K, Rules], key: K, binding: AclBinding) -> None:
        rules = self._owned(table, key)
        del rules[binding]
        if not rules:
            self._own.discard(id(rules))
            del table[key]

    def _owned(self, table: dict[K, Rules], key: K) -> Rules:
        rules = table.get(key)
        if rules is None or id(rules) not in self._own:
            rules = table[key] = dict(rules or _NO_RULES)
            self._own.add(id(rules))
        return rules


def _counted(counts: dict[K, int], key: K, change: int) -> int:
    count = counts[key] = counts.get(key, 0) + change
    if not count:
        del counts[key]
    return count


def _pattern(binding: AclBinding) -> Pattern:
    return binding.resource_type, binding.pattern_type, binding.name


def _type_and_principal(binding: AclBinding) -> TypeOfPrincipal:
    return binding.resource_type, binding.principal


def _prefix_length(binding: AclBinding) -> PrefixLength:
    return binding.resource_type, len(binding.name)


def _lengths(prefixes: Iterable[PrefixLength]) -> dict[int, tuple[int, ...]]:
    """Lengths of the prefixes per resource type, longest first: lookups try a name's prefix of each length."""
    by_type: dict[int, list[int]] = {}
    for resource_type, length in sorted(prefixes, reverse=True):
        by_type.setdefault(resource_type, []).append(length)
    return {key: tuple(lengths) for key, lengths in by_type.items()}


_NO_RULES: Rules = {}
NO_ACLS = AclIndex(_Tables({}, {}, {}, {}))
