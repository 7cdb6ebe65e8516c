"""Cost of client quotas for clients below their limits."""

from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from benchmarks.rows.security.unchanged import unchanged_latency
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker
from tests.support.clients import RawConnection

_QUOTAS, _AT_ONCE = 1_000, 100
# High enough never to throttle.
_VALUES = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e9}


def set_quotas(session: Session, broker: Broker) -> None:
    """Set quotas for absent users, and a default that applies to the clients of the row."""
    entities = [[EntityData("user", f"user-{number}")] for number in range(_QUOTAS - 1)]
    entities.append([EntityData("client-id", None)])
    operations = [OpData(name, value, False) for name, value in _VALUES.items()]
    with RawConnection(broker.port) as connection:
        for start in range(0, _QUOTAS, _AT_ONCE):
            some = entities[start : start + _AT_ONCE]
            entries = [AlterClientQuotasRequestEntryData(entity, operations) for entity in some]
            answer = connection.ask(AlterClientQuotasRequest(entries), 1)
            assert isinstance(answer, AlterClientQuotasResponse)
            refused = [entry.error_message for entry in answer.entries if entry.error_code]
            if refused:
                raise RuntimeError(f"{broker.name} takes no quotas: {refused[0]}")


ROWS = (unchanged_latency("quotas-latency", "quotas", "1,000 quotas", set_quotas),)
