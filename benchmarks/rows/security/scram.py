"""SCRAM logins, each on a new connection."""

from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.loads import client, with_cpu
from benchmarks.model import Figures, Metric, Row
from benchmarks.rows.common import MeasureBroker, both_of
from benchmarks.session import Session, admin_client
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.secured import MECHANISMS, SASL_PLAINTEXT, SECURED

_LOGINS = 3_000
_USER, _PASSWORD = "alice", "alices-password"
_ITERATIONS = 4096  # Kafka's default


def create_user(session: Session) -> None:
    for key in (f"kafka-{SECURED}", f"barnabas-{SECURED}"):
        admin = admin_client(session.broker(key))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, _ITERATIONS)
            # One mechanism per request: a request may name a user only once.
            upsertion = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
            admin.alter_user_scram_credentials([upsertion])[_USER].result(60)


def logins(mechanism: str) -> MeasureBroker:
    def measure(session: Session, broker: Broker) -> Figures:
        endpoint, count = broker.at(SASL_PLAINTEXT), session.scaled(_LOGINS)
        options = ("--port", endpoint.port, "--mechanism", mechanism, "--count", count)
        user = ("--user", _USER, "--password", _PASSWORD)
        figures = with_cpu(endpoint, lambda: count / client("security.logins", *options, *user)["seconds"])
        return {"rate": figures["rate"], "cpu_each": figures["cpu"] / count * 1e3}

    return measure


ROWS = tuple(
    Row(
        mechanism.lower(),
        f"{mechanism}: logins, 8 connections at once",
        both_of(SECURED, logins(mechanism)),
        (Metric("rate", "logins/s"), Metric("cpu_each", "ms CPU each", digits=2)),
        prepare=create_user,
        shares=SECURED,
    )
    for mechanism in MECHANISMS
)
