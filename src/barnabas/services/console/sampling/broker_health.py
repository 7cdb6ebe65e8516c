"""Load of brokers, from the metrics that Barnabas serves over HTTP. Other brokers are not polled."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.client import Address, BrokerMetadata, Client
from barnabas.client.admin import BROKER, describe_configs
from barnabas.client.errors import ClientError
from barnabas.common.errors import KafkaError
from barnabas.common.http_client import fetch

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


class BrokerHealth(NamedTuple):
    """Broker metrics; None if not exported."""

    loop_busy: float | None = None
    """Per cent of the time that the event loop is busy."""
    produce_p99_ms: float | None = None


UNKNOWN_HEALTH = BrokerHealth()


class HealthReader:
    """Reads broker metrics, caching the address of each metrics endpoint."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._addresses: dict[int, Address | None] = {}
        self._asked_at = 0.0

    async def read(self, brokers: Mapping[int, BrokerMetadata]) -> dict[int, BrokerHealth]:
        """Health of brokers with a reachable metrics endpoint that needs neither TLS nor a password."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at > ASK_AGAIN or brokers.keys() - self._addresses.keys():
            self._asked_at = now
            found = await asyncio.gather(*(self._metrics_address(broker) for broker in brokers.values()))
            self._addresses = dict(zip(brokers, found, strict=True))
        asked = {broker_id: address for broker_id, address in self._addresses.items() if address is not None}
        read = await asyncio.gather(*map(_read_page, asked.values()))
        return {
            broker_id: health for broker_id, health in zip(asked, read, strict=True) if health is not None
        }

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
    return BrokerHealth(busy, None if p99 is None else float(p99[1]))
