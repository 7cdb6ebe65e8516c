"""Find the schema registry that a cluster runs (`serve --registry`): DescribeCluster returns its address.

An address from the network must not receive credentials that its sender could not get otherwise (decision 42): a
discovered registry gets the login of the registry settings only if it is on the host of the broker that named it, and
speaks https if that broker speaks TLS. It never gets the login of the broker connection. https is verified with the CA
of the broker connection unless another is set.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import ClientError
from barnabas.client.schemas.client import RegistryError
from barnabas.client.schemas.settings import NO_ACCOUNT, REGISTRY_URL, RegistryAccount
from barnabas.client.security.settings import PLAINTEXT, ClientSecurity
from barnabas.common.addresses import is_loopback
from barnabas.common.errors import KafkaError
from barnabas.protocol.messages.cluster import DescribeClusterRequest
from barnabas.security.tls import TlsSettings

SECONDS = 5.0
MAX_BROKERS = 16  # asked one after the other


async def discover_registry(client: Client, account: RegistryAccount = NO_ACCOUNT) -> RegistryAccount | None:
    """The account at the registry of the cluster; None if no broker names one. An account with a URL is kept.

    RegistryError if the account has credentials that must not be sent to the registry found.
    """
    if account.is_located:
        return account
    try:
        async with asyncio.timeout(SECONDS):
            async with aclosing(_connections(client)) as connections:
                async for connection in connections:
                    response = await connection.send(DescribeClusterRequest())
                    found = located(account, response.barnabas_registry, connection.address, client.security)
                    if found is not None:
                        return found
    except (ClientError, KafkaError, TimeoutError) as error:
        if isinstance(error, RegistryError):
            raise
    return None


def discover(
    bootstrap: str, security: ClientSecurity = PLAINTEXT, account: RegistryAccount = NO_ACCOUNT
) -> RegistryAccount | None:
    """`discover_registry` with a new client, for code without an event loop."""

    async def ask() -> RegistryAccount | None:
        async with Client(
            bootstrap, request_timeout=SECONDS, total_timeout=SECONDS, security=security
        ) as client:
            return await discover_registry(client, account)

    return account if account.is_located else asyncio.run(ask())


async def _connections(client: Client) -> AsyncGenerator[BrokerConnection, None]:
    first = await client.any_connection()
    yield first
    brokers = (await client.refresh([])).brokers
    for broker in list(brokers.values())[:MAX_BROKERS]:
        if broker.address != first.address:
            yield await client.connection_to(broker.id)


def located(
    account: RegistryAccount, announced: str, broker: Address, security: ClientSecurity
) -> RegistryAccount | None:
    """The account at the address that a broker returned; None if there is none, or it cannot be reached from here."""
    parts = urllib.parse.urlsplit(announced)
    if parts.scheme not in ("http", "https") or parts.port is None:
        return None
    host = parts.hostname or broker.host
    if is_loopback(host) and not is_loopback(broker.host):
        return None
    url = f"{parts.scheme}://{Address(host, parts.port)}"
    is_same_host = host.lower() == broker.host.lower() or (is_loopback(host) and is_loopback(broker.host))
    if account.has_credentials and not is_same_host:
        raise _withheld(url, f"it is not on the host of the broker that advertises it, {broker}")
    if account.has_credentials and security.tls is not None and parts.scheme != "https":
        raise _withheld(url, "it does not use TLS, although the brokers do")
    return replace(account, url=url, tls=_tls(account, url, security), discovered=True)


def _tls(account: RegistryAccount, url: str, security: ClientSecurity) -> TlsSettings | None:
    """Without own settings the CA of the brokers, but not the certificate that identifies this client to them."""
    if url.startswith("http:"):
        return None
    if account.tls is not None or security.tls is None:
        return account.tls
    broker_tls = security.tls
    return TlsSettings(
        broker_tls.authorities,
        check_host=broker_tls.check_host,
        check_certificate=broker_tls.check_certificate,
    )


def _withheld(url: str, reason: str) -> RegistryError:
    return RegistryError(
        f"credentials are not sent to the schema registry {url} that the cluster advertises: {reason}; "
        f"set {REGISTRY_URL} to confirm it"
    )
