"""What client quotas cost those whom they do not hold back."""

from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from benchmarks.model import Row, Target
from benchmarks.rows.common import subject
from benchmarks.rows.latency import P50, P99, produce
from benchmarks.session import Session
from tests.clients.raw import RawConnection

_QUOTAS, _AT_ONCE = 1_000, 100
# Nobody reaches these.
_VALUES = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e9}
NONE, MANY = "no quotas", "1,000 quotas"


def set_quotas(session: Session) -> None:
    """Of users that are not there, and a default that holds for the clients of the row."""
    entities = [[EntityData("user", f"user-{number}")] for number in range(_QUOTAS - 1)]
    entities.append([EntityData("client-id", None)])
    operations = [OpData(name, value, False) for name, value in _VALUES.items()]
    with RawConnection(session.broker("barnabas-quotas").port) as connection:
        for start in range(0, _QUOTAS, _AT_ONCE):
            some = entities[start : start + _AT_ONCE]
            entries = [AlterClientQuotasRequestEntryData(entity, operations) for entity in some]
            connection.ask(AlterClientQuotasRequest(entries), 1)


ROWS = (
    Row(
        "quotas-latency",
        "produce latency at 5,000/s with 1,000 quotas, compared with none",
        (subject(NONE, "barnabas", produce), subject(MANY, "barnabas-quotas", produce)),
        (P50, P99),
        (Target("p99_us", "<=", 1.1, relative_to=NONE, subject=MANY, or_within_spread=True),),
        prepare=set_quotas,
    ),
)
