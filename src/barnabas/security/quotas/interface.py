"""Client quotas as the stages of a request see them. Without quotas (`NO_QUOTAS`) nothing is counted."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.security.context import RequestContext

UNBOUNDED = 2**31 - 1


class Kind(Enum):
    """What a quota is about: the name of its value in the metadata, and of the resource in Kafka's metrics."""

    PRODUCE = "producer_byte_rate", "Produce"
    FETCH = "consumer_byte_rate", "Fetch"
    REQUEST = "request_percentage", "Request"
    MUTATION = "controller_mutation_rate", "ControllerMutation"

    def __init__(self, value_name: str, resource: str) -> None:
        self.value_name = value_name
        self.resource = resource


class Usage(NamedTuple):
    """What one request has used."""

    produced_bytes: int = 0
    fetched_bytes: int = 0
    seconds: float = 0.0  # of the loop


class Quotas(Protocol):
    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of which some client has a quota: only these are counted."""
        ...

    def charge(self, context: RequestContext, usage: Usage) -> int:
        """Count what a request has used; the milliseconds for which its client is muted."""
        ...

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        """The same for a fetch whose records are not sent if it has to wait: then their bytes are not counted."""
        ...

    def fetch_room(self, context: RequestContext) -> int:
        """The most bytes that a fetch may have without being above the quota by itself."""
        ...

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        """Count partitions that are to be created or deleted (KIP-599); the milliseconds to wait beyond the quota.

        A strict request is not counted then, because it is refused; another one is carried out, and its client muted.
        """
        ...


class NoQuotas:
    """The quotas of a deployment without any."""

    kinds: frozenset[Kind] = frozenset()

    def charge(self, context: RequestContext, usage: Usage) -> int:
        return 0

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        return 0

    def fetch_room(self, context: RequestContext) -> int:
        return UNBOUNDED

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        return 0


NO_QUOTAS = NoQuotas()
