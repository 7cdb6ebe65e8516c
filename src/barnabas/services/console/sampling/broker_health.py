"""Load of brokers, from the metrics that Barnabas serves over HTTP. Other brokers are not polled."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from barnabas.client import Address, BrokerMetadata, Client, ClientError
from barnabas.client.admin import BROKER, describe_configs
from barnabas.common.errors import KafkaError
from barnabas.common.http_client import fetch
from barnabas.common.types import TopicPartition

LISTEN = "barnabas.metrics.listen"
TLS = "barnabas.metrics.tls.listener"
TIMEOUT = 2.0
MAX_PAGE = 8 * 1024 * 1024
ASK_AGAIN = 60.0
"""Seconds between lookups of the brokers' metrics addresses."""

_IDLE = re.compile(rb"^kafka_network_socketserver_networkprocessoravgidle_percent ([0-9.e+-]+)", re.MULTILINE)
_P99 = re.compile(
    rb'^kafka_network_requestmetrics_totaltimems\{request="Produce",quantile="0.99"\} ([0-9.e+-]+)',
    re.MULTILINE,
)


_UNDER_MIN_ISR = re.compile(rb"^kafka_cluster_partition_underminisr\{([^}\n]*)\} 1(?:\.0)?$", re.MULTILINE)
_TOPIC, _INDEX = re.compile(rb'topic="([^"]*)"'), re.compile(rb'partition="(\d+)"')
_CERTIFICATE = re.compile(
    rb"^barnabas_tls_certificate_expiry_seconds(?:\{[^}\n]*\})? ([0-9.e+-]+)$", re.MULTILINE
)
_LOST_EVENTS = re.compile(rb"^barnabas_audit_events_lost_total(?:\{[^}\n]*\})? ([0-9.e+-]+)$", re.MULTILINE)
MAX_PARTITIONS = 1000
LOSS_SECONDS = 600.0
"""Lost audit events are reported for so long, as in the rule for Prometheus."""


class BrokerHealth(NamedTuple):
    """Broker metrics; None if not exported."""

    loop_busy: float | None = None
    """Per cent of the time that the event loop is busy."""
    produce_p99_ms: float | None = None
    under_min_isr: tuple[TopicPartition, ...] = ()
    """Led partitions with fewer replicas in sync than min.insync.replicas, up to a limit."""
    certificate_expiry: float | None = None
    """Epoch seconds of the listener certificate that expires first."""
    audit_lost: float = 0.0
    """Events missing in the audit log: since the start of the broker on its page, recently in a sample."""


UNKNOWN_HEALTH = BrokerHealth()


class LossWindow:
    """Increase of a counter in the last ten minutes; a restart of its process resets it."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._increases: deque[tuple[float, float]] = deque(maxlen=int(LOSS_SECONDS))

    def recent(self, value: float, now: float) -> float:
        before = value if self._last is None else self._last
        increase = value - before if value >= before else value
        self._last = value
        if increase > 0:
            self._increases.append((now, increase))
        while self._increases and now - self._increases[0][0] > LOSS_SECONDS:
            self._increases.popleft()
        return sum(lost for _, lost in self._increases)


class HealthReader:
    """Reads broker metrics, caching the address of each metrics endpoint."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._addresses: dict[int, Address | None] = {}
        self._losses: dict[int, LossWindow] = {}
        self._asked_at = 0.0

    async def read(self, brokers: Mapping[int, BrokerMetadata]) -> dict[int, BrokerHealth]:
        """Health of brokers with a reachable metrics endpoint that needs neither TLS nor a password."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at > ASK_AGAIN or brokers.keys() - self._addresses.keys():
            self._asked_at = now
            found = await asyncio.gather(*(self._metrics_address(broker) for broker in brokers.values()))
            self._addresses = dict(zip(brokers, found, strict=True))
        requested = {
            broker_id: address for broker_id, address in self._addresses.items() if address is not None
        }
        read = await asyncio.gather(*map(_read_page, requested.values()))
        answers = zip(requested, read, strict=True)
        known = {broker: health for broker, health in answers if health is not None}
        return {broker: self._with_recent_loss(broker, health, now) for broker, health in known.items()}

    def _with_recent_loss(self, broker: int, health: BrokerHealth, now: float) -> BrokerHealth:
        window = self._losses.setdefault(broker, LossWindow())
        return health._replace(audit_lost=window.recent(health.audit_lost, now))

    async def _metrics_address(self, broker: BrokerMetadata) -> Address | None:
        try:
            async with asyncio.timeout(TIMEOUT):
                settings = await describe_configs(self._client, BROKER, str(broker.id))
        except (ClientError, KafkaError, TimeoutError, OSError):
            return None
        values = {each.name: each.value or "" for each in settings if each.name in (LISTEN, TLS)}
        return None if values.get(TLS) else reachable(values.get(LISTEN, ""), broker.address.host)


def reachable(listen: str, host: str) -> Address | None:
    """Address of the metrics: always the broker's own host, whatever its settings say."""
    named, _, port = listen.rpartition(":")
    if not port.isdecimal() or not int(port):
        return None
    named = named.strip("[]") or "127.0.0.1"
    if named == host or _is_wildcard(named) or (_is_loopback(named) and _is_loopback(host)):
        return Address(host, int(port))
    return None


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _read_page(address: Address) -> BrokerHealth | None:
    url = f"http://{address}/metrics"
    try:
        page = await asyncio.to_thread(fetch, url, timeout=TIMEOUT, max_bytes=MAX_PAGE)
    except OSError:
        return None
    return parse_health(page.body) if page.status == 200 else None


def parse_health(page: bytes) -> BrokerHealth:
    idle, p99 = _IDLE.search(page), _P99.search(page)
    busy = None if idle is None else round(100 * (1 - float(idle[1])), 2)
    expiries = [float(each[1]) for each in _CERTIFICATE.finditer(page)]
    return BrokerHealth(
        busy,
        None if p99 is None else float(p99[1]),
        tuple(islice(_under_min_isr(page), MAX_PARTITIONS)),
        min(expiries, default=None),
        sum(float(each[1]) for each in _LOST_EVENTS.finditer(page)),
    )


def _under_min_isr(page: bytes) -> Iterator[TopicPartition]:
    for line in _UNDER_MIN_ISR.finditer(page):
        topic, index = _TOPIC.search(line[1]), _INDEX.search(line[1])
        if topic is not None and index is not None:
            yield TopicPartition(topic[1].decode("utf-8", "replace"), int(index[1]))
