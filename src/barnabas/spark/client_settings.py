"""The `kafka.*` options: settings of Kafka's clients that apply to ours.

A setting of Kafka's clients that has no effect here is accepted, so that a query can be moved over unchanged. One that
would change which records are read, or who may read them, and that we cannot honour, is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from barnabas.client import FetchSettings
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.security import (
    PLAINTEXT,
    ClientSecurity,
    check_security_setting,
    is_security_setting,
    parse_security,
)
from barnabas.client.security import UNDERSTOOD as SECURITY
from barnabas.common.suggestions import closest
from barnabas.security.authn import SecuritySettingError

CLIENT_PREFIX = "kafka."

UNDERSTOOD = {
    "bootstrap.servers": "Addresses of brokers, `host:port` separated by commas.",
    "client.id": "Name of this client in the brokers' logs and quotas.",
    "group.id": "The group that progress is committed to.",
    "isolation.level": "`read_committed` skips aborted transactions, and stops at open ones.",
    "fetch.min.bytes": "As Kafka's.",
    "fetch.max.wait.ms": "As Kafka's.",
    "fetch.max.bytes": "As Kafka's.",
    "max.partition.fetch.bytes": "As Kafka's; default 4 MiB.",
    "request.timeout.ms": "As Kafka's.",
    "default.api.timeout.ms": "How long brokers may be unreachable before the query fails.",
    "security.protocol": "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`; with `kafka.ssl.*` and `kafka.sasl.*`.",
    "acks": "As Kafka's (sink).",
    "compression.type": "As Kafka's (sink).",
    "max.request.size": "As Kafka's (sink).",
    "transaction.timeout.ms": "As Kafka's (sink).",
}

# They tune internals of Kafka's clients that ours does not have.
WITHOUT_EFFECT = frozenset(
    [
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ]
)

# As in Spark's connector: each would break the guarantee that Spark alone decides what is read.
REFUSED = {
    "auto.offset.reset": "use the option 'startingOffsets', which counts only when a query starts for the first time",
    "key.deserializer": "keys are bytes: use DataFrame operations on them",
    "value.deserializer": "values are bytes: use DataFrame operations, or the option 'value.format'",
    "key.serializer": "keys are bytes or text: convert them with DataFrame operations, or use the option 'key.format'",
    "value.serializer": "values are bytes or text: convert them, or use the option 'value.format'",
    "enable.auto.commit": "progress is Spark's: see the option 'commitProgress'",
    "interceptor.classes": "interceptors could change what is read",
    "transactional.id": "the sink chooses its transactional ids",
}

KNOWN = frozenset({*UNDERSTOOD, *WITHOUT_EFFECT, *SECURITY})

PARTITION_BYTES = 4 * 1024 * 1024  # larger than a consumer's: a task reads all of it at once


FETCH = FetchSettings(partition_bytes=PARTITION_BYTES)


class ClientSettingError(ValueError):
    """A `kafka.*` option that cannot be honoured."""


@dataclass(frozen=True)
class SparkClientSettings:
    bootstrap: str
    client_id: str = "barnabas-spark"
    group_id: str | None = None
    committed_only: bool = False
    request_timeout: float = 30.0
    total_timeout: float = 60.0
    fetch: FetchSettings = FETCH
    security: ClientSecurity = PLAINTEXT

    @classmethod
    def parse(cls, value: Mapping[str, str]) -> SparkClientSettings:
        """Names as Kafka writes them, without the prefix."""
        bootstrap = value.get("bootstrap.servers", "").strip()
        if not bootstrap:
            raise ClientSettingError("option 'kafka.bootstrap.servers' must be given")
        committed_only = _committed_only(value)
        return cls(
            bootstrap,
            value.get("client.id", cls.client_id),
            value.get("group.id") or None,
            committed_only,
            _number(value, "request.timeout.ms", 30_000) / 1000,
            _number(value, "default.api.timeout.ms", 60_000) / 1000,
            FetchSettings(
                min_bytes=_number(value, "fetch.min.bytes", 1),
                max_bytes=_number(value, "fetch.max.bytes", 50 * 1024 * 1024),
                max_wait=_number(value, "fetch.max.wait.ms", 500) / 1000,
                partition_bytes=_number(value, "max.partition.fetch.bytes", PARTITION_BYTES),
                isolation=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
            ),
            _security(value),
        )

    @classmethod
    def without_brokers(cls, value: Mapping[str, str]) -> SparkClientSettings:
        """For an object store: of all settings, only `isolation.level` applies."""
        return cls("", committed_only=_committed_only(value))

    @property
    def link(self) -> dict[str, Any]:
        """Arguments of `link_to`."""
        return {
            "bootstrap": self.bootstrap,
            "client_id": self.client_id,
            "request_timeout": self.request_timeout,
            "total_timeout": self.total_timeout,
            "security": self.security,
        }


def _committed_only(value: Mapping[str, str]) -> bool:
    isolation = value.get("isolation.level", "read_uncommitted").strip().lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ClientSettingError(
            f"option 'kafka.isolation.level' must be read_committed or read_uncommitted, not {isolation!r}"
        )
    return isolation == "read_committed"


def check_client_setting(name: str, side: str) -> None:
    if name in REFUSED:
        raise ClientSettingError(f"option {CLIENT_PREFIX + name!r} is not supported: {REFUSED[name]}")
    if name in KNOWN:
        return
    if is_security_setting(name):
        with _as_option():
            check_security_setting(name)
        return
    match = closest(name, KNOWN)
    hint = f"; did you mean {CLIENT_PREFIX + match!r}?" if match is not None else ""
    raise ClientSettingError(f"unknown option {CLIENT_PREFIX + name!r} of the {side}{hint}")


def _security(value: Mapping[str, str]) -> ClientSecurity:
    """Fail rather than read without the requested encryption or identity."""
    with _as_option():
        return parse_security(value)


@contextmanager
def _as_option() -> Iterator[None]:
    """Report an invalid setting as an invalid option."""
    try:
        yield
    except SecuritySettingError as error:
        raise ClientSettingError(f"option {CLIENT_PREFIX + error.setting!r} {error.problem}") from None


def _number(value: Mapping[str, str], name: str, default: int) -> int:
    text = value.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ClientSettingError(f"option {CLIENT_PREFIX + name!r} must be a whole number, not {text!r}")
    return number
