"""Groups of the consumer protocol (KIP-848): cost of heartbeats, time until a new member has its share, and the pause
of the other members meanwhile."""

from benchmarks.loads import client
from benchmarks.model import BARNABAS, KAFKA, Figures, Metric, Row, Target
from benchmarks.rows.common import COORDINATION_CPU_TARGET, CPU, MeasureBroker, both, subject
from benchmarks.rows.groups import wait_for_coordinators
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker

_MEMBERS, _HEARTBEATS = 500, 50_000
_SETTLED = 50
_PARTITIONS = 12
CLASSIC = ", classic protocol"


def _members(session: Session, broker: Broker, mode: str, partitions: int, *options: object) -> Figures:
    topic = session.fresh_topic(broker, partitions)
    wait_for_coordinators(broker.port, topic, 1)
    where = ("--port", broker.port, "--group", f"members-of-{topic}", "--topic", topic)
    figures = client("consumer_members", mode, *where, "--partitions", partitions, *options)
    session.delete_topic(broker, topic)
    return figures


def heartbeats(session: Session, broker: Broker) -> Figures:
    options = ("--members", _MEMBERS, "--heartbeats", session.scaled(_HEARTBEATS), "--pid", broker.pid)
    return _members(session, broker, "stay", _MEMBERS, *options)


def joining(session: Session, broker: Broker) -> Figures:
    partitions = _SETTLED + 1
    return _members(session, broker, "join", partitions, "--members", _SETTLED)


def pauses(protocol: str) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        topic = session.fresh_topic(broker, _PARTITIONS)
        wait_for_coordinators(broker.port, topic, 1)
        options = ("--port", broker.port, "--topic", topic, "--partitions", _PARTITIONS)
        return client("pauses", *options, "--group", f"pauses-of-{topic}", "--protocol", protocol)

    return measure


ROWS = (
    Row(
        "heartbeats-500",
        "heartbeats of 500 members of a consumer group",
        both(heartbeats),
        (Metric("rate", "heartbeats/s"), CPU),
        (Target("rate", ">=", 1.0), COORDINATION_CPU_TARGET),
    ),
    Row(
        "one-joins-50",
        "one member joins a consumer group of 50, until all have their share",
        both(joining),
        (Metric("ms", "ms"),),
        (Target("ms", "<=", 1.0, or_within_spread=True),),
    ),
    Row(
        "rebalance-pause",
        "longest pause of a member that keeps its work while another joins",
        (
            subject(KAFKA, "kafka", pauses("consumer")),
            subject(BARNABAS, "barnabas", pauses("consumer")),
            subject(KAFKA + CLASSIC, "kafka", pauses("classic")),
            subject(BARNABAS + CLASSIC, "barnabas", pauses("classic")),
        ),
        (Metric("ms", "ms"),),
        (
            Target("ms", "<=", 1.0, or_within_spread=True),
            Target("ms", "<=", 1.0, relative_to=BARNABAS + CLASSIC),
        ),
        warm_up=False,
    ),
)
