"""TLS 1.3 with the same certificate and cipher for both brokers: rates, CPU and handshakes."""

import itertools

from benchmarks.loads import client, consumer_perf_test, pinged, producer_perf_test, with_cpu
from benchmarks.model import Figures, Metric, Row, Target
from benchmarks.rows.common import CPU, RATE, both_of
from benchmarks.rows.produce import BATCHES_OF_128_KB
from benchmarks.session import Session
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.secured import SECURED, SSL

_PARTITIONS = 6
_RECORDS, _HANDSHAKES = 2_000_000, 1_500
_TARGETS = (Target("rate", ">=", 1.0), Target("cpu", "<=", 0.6))
_BATCHED = {"acks": "1", **BATCHES_OF_128_KB}
_groups = (f"tls-group-{number}" for number in itertools.count())


def produce(session: Session, broker: Broker) -> Figures:
    topic = session.fresh_topic(broker, _PARTITIONS)
    properties = {**_BATCHED, **session.certificates.client_properties()}
    records = session.scaled(_RECORDS)
    endpoint = broker.at(SSL)
    figures = with_cpu(endpoint, lambda: producer_perf_test(endpoint, topic, records, 100, properties))
    session.delete_topic(broker, topic)
    return figures


def write_what_is_read(session: Session) -> None:
    for key in (f"kafka-{SECURED}", f"barnabas-{SECURED}"):
        broker = session.broker(key)
        topic = session.fresh_topic(broker, _PARTITIONS)
        producer_perf_test(broker, topic, session.scaled(_RECORDS), 100, _BATCHED)
        session.keep(broker, "tls-consume", topic)


def consume(session: Session, broker: Broker) -> Figures:
    topic, records = session.kept(broker, "tls-consume"), session.scaled(_RECORDS)
    properties = session.certificates.client_properties()
    endpoint = broker.at(SSL)
    return with_cpu(endpoint, lambda: consumer_perf_test(endpoint, topic, records, next(_groups), properties))


def handshakes(session: Session, broker: Broker) -> Figures:
    """Measure handshakes while another connection to the same listener pings."""
    endpoint, count = broker.at(SSL), session.scaled(_HANDSHAKES)
    options = ("--port", endpoint.port, "--ca", session.certificates.trust, "--count", count)
    with pinged(endpoint.port, "--ca", session.certificates.trust) as pings:
        figures = with_cpu(endpoint, lambda: count / client("security.handshakes", *options)["seconds"])
    return {
        "rate": figures["rate"],
        "cpu_each": figures["cpu"] / count * 1e3,
        "ping_p99": pings["p99_us"] / 1e3,
    }


ROWS = (
    Row(
        "tls-produce",
        "TLS: produce 100 B, 6 partitions, acks=1, 128 KB batches",
        both_of(SECURED, produce),
        (RATE, CPU),
        _TARGETS,
        shares=SECURED,
    ),
    Row(
        "tls-consume",
        "TLS: consume 100 B, 6 partitions, from the beginning",
        both_of(SECURED, consume),
        (RATE, CPU),
        _TARGETS,
        prepare=write_what_is_read,
        shares=SECURED,
    ),
    Row(
        "tls-handshakes",
        "TLS: full handshakes, P-256, 8 connections at once",
        both_of(SECURED, handshakes),
        (
            Metric("rate", "handshakes/s"),
            Metric("cpu_each", "ms CPU each", digits=2),
            Metric("ping_p99", "ms p99 of a ping", digits=2),
        ),
        shares=SECURED,
    ),
)
