"""Interface of client quotas for request handling. Without quotas (`NO_QUOTAS`) nothing is measured."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.security.context import RequestContext

UNBOUNDED = 2**31 - 1


class QuotaKind(Enum):
    """Kind of a quota: its key in the metadata, and its resource in Kafka's metrics."""

    PRODUCE = "producer_byte_rate", "Produce"
    FETCH = "consumer_byte_rate", "Fetch"
    REQUEST = "request_percentage", "Request"
    MUTATION = "controller_mutation_rate", "ControllerMutation"

    def __init__(self, value_name: str, resource: str) -> None:
        self.value_name = value_name
        self.resource = resource


class Usage(NamedTuple):
    """Resources used by one request."""

    produced_bytes: int = 0
    fetched_bytes: int = 0
    seconds: float = 0.0  # on the event loop


class Quotas(Protocol):
    @property
    def kinds(self) -> frozenset[QuotaKind]:
        """Kinds with a quota for at least one client; only these are measured."""
        ...

    def charge(self, context: RequestContext, usage: Usage) -> int:
        """Record usage of a request; return the milliseconds for which its client is muted."""
        ...

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        """Record usage of a fetch; if it is throttled, its records are not sent and their bytes not counted."""
        ...

    def fetch_room(self, context: RequestContext) -> int:
        """Return the maximum size of a fetch that does not exceed the quota alone."""
        ...

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        """Charge partitions to create or delete (KIP-599); return the milliseconds to throttle.

        Beyond the quota a strict request is refused and not counted; any other is executed and its client muted.
        """
        ...


class NoQuotas:
    """Quotas of a cluster that has none."""

    kinds: frozenset[QuotaKind] = frozenset()

    def charge(self, context: RequestContext, usage: Usage) -> int:
        return 0

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        return 0

    def fetch_room(self, context: RequestContext) -> int:
        return UNBOUNDED

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        return 0


NO_QUOTAS = NoQuotas()
