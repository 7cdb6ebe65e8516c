"""Quota entities, and filters of DescribeClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError

# -- Entity of a client quota: a user, a client id, both, or an address (KIP-546, KIP-612) -------------

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Entity types in requests."""

DEFAULT = ""
"""Name of the default entity: applies to all without a specific quota."""


class QuotaEntity(NamedTuple):
    """None where the quota does not depend on the field. An ip is never combined with others."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


EXACT, OF_DEFAULT, SPECIFIED = 0, 1, 2
Component = tuple[str, int, str | None]
Matching = Callable[[QuotaEntity], bool]


def matching(components: Sequence[Component], *, strict: bool) -> Matching:
    """Return a predicate for entities. A strict one requires exactly these entity types."""
    names: dict[str, str | None] = {}
    for kind, match_type, text in components:
        if kind in names:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        names[kind] = _required_name(kind, match_type, text)
    if IP in names and len(names) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )

    def matches(entity: QuotaEntity) -> bool:
        parts = dict(zip((USER, CLIENT_ID, IP), entity, strict=True))
        present = sum(name is not None for name in entity)
        return (not strict or present == len(names)) and all(
            parts[kind] is not None and name in (None, parts[kind]) for kind, name in names.items()
        )

    return matches


def _required_name(kind: str, match_type: int, text: str | None) -> str | None:
    """Return the name that an entity must have; None for any."""
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind not in (USER, CLIENT_ID, IP):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if match_type == EXACT:
        if text is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return text
    if match_type not in (OF_DEFAULT, SPECIFIED):
        raise _invalid(f"Unknown match type {match_type}")
    if text is not None:
        name = "DEFAULT" if match_type == OF_DEFAULT else "SPECIFIED"
        raise _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
    return DEFAULT if match_type == OF_DEFAULT else None


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
