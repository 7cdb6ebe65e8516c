"""Listeners, advertised addresses, certificates and ZooKeeper of a broker that may not run yet."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.cli.doctor.finding import Finding, ok, problem, warning
from barnabas.config.broker import BrokerConfig
from barnabas.config.listeners import ListenerSpec
from barnabas.config.setting import ConfigError

if TYPE_CHECKING:
    from barnabas.cluster.zookeeper import ZooKeeperSettings

EXPIRES_SOON = 30 * 86_400
SLOW_ZOOKEEPER = 0.1  # a tenth of a second: the controller writes every change of metadata there


def check_network(config: BrokerConfig, *, is_running: bool) -> Iterator[Finding]:
    """`is_running`: a broker uses the data folder, so its ports are taken."""
    for listener in config.listeners:
        yield _port(listener, is_running)
    for listener in config.advertised_listeners:
        yield _advertised(listener)
    for listener in config.listeners:
        if listener.has_tls:
            yield _certificate(config, listener)
    if config["zookeeper.connect"]:
        yield _zookeeper(config)


def _port(listener: ListenerSpec, is_running: bool) -> Finding:
    check, address = f"listener {listener.name}", f"{listener.host or '0.0.0.0'}:{listener.port}"
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listener.host, listener.port))
        except PermissionError:
            return problem(check, f"{address} needs privileges", "Use a port from 1024 on.")
        except OSError as error:
            return _unavailable(check, address, listener.port, error, is_running)
    if is_running:
        remedy = "It listens elsewhere: compare listeners with the command that started it."
        return warning(check, f"a broker uses the data folder, but {address} is free", remedy)
    return ok(check, f"{address} is free")


def _unavailable(check: str, address: str, port: int, error: OSError, is_running: bool) -> Finding:
    if isinstance(error, socket.gaierror):
        return problem(check, f"{address} does not resolve", "Use an address of this machine in listeners.")
    if is_running:
        return ok(check, f"{address} is in use by the running broker")
    remedy = f"`ss -ltnp 'sport = :{port}'` shows the program; stop it, or choose another port (--listen)."
    return problem(check, f"{address}: {error.strerror}", remedy)


def _advertised(listener: ListenerSpec) -> Finding:
    check = f"advertised listener {listener.name}"
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(listener.host, listener.port)}
    except socket.gaierror as error:
        remedy = "Add the name to DNS or /etc/hosts of brokers and clients."
        return problem(check, f"{listener.host} does not resolve: {error.strerror}", remedy)
    return ok(check, f"{listener.host} resolves to {', '.join(sorted(map(str, found)))}")


def _certificate(config: BrokerConfig, listener: ListenerSpec) -> Finding:
    from barnabas.security.tls import listener_tls, own_certificate, server_context

    check = f"certificate of {listener.name}"
    if config["barnabas.tls.auto"] and not config.of_listener(listener.name, "ssl.keystore.location"):
        return ok(check, "is created and renewed by the broker (--tls auto)")
    try:
        settings = listener_tls(listener.name, lambda name: config.of_listener(listener.name, name))
        server_context(settings)
        assert settings.tls.certificate is not None  # listener_tls refuses that
        certificate = own_certificate(settings.tls.certificate)
    except (ConfigError, ValueError) as error:
        return problem(check, str(error), "Correct the ssl.* settings of the listener.")
    left = certificate.expires - time.time()
    text = f"{certificate.subject} expires in {left / 86_400:.0f} days"
    if left < 0:
        return problem(check, f"{certificate.subject} has expired", "Put a new one into the key store.")
    if left < EXPIRES_SOON:
        return warning(check, text, "Put a new one into the key store; no restart is needed.")
    return _matched(check, text, certificate.names, config, listener)


def _matched(
    check: str, text: str, names: frozenset[str], config: BrokerConfig, listener: ListenerSpec
) -> Finding:
    """Clients check that the certificate has the host that the broker advertises."""
    hosts = [spec.host for spec in config.advertised_listeners if spec.name == listener.name]
    missing = [host for host in hosts if not _covers(names, host)]
    if missing:
        remedy = f"Request a certificate with the name {missing[0]}, or advertise one of: {', '.join(sorted(names))}."
        return problem(check, f"does not have the advertised host {missing[0]}: clients refuse it", remedy)
    return ok(check, text)


def _covers(names: frozenset[str], host: str) -> bool:
    wildcard = f"*.{host.partition('.')[2]}"
    return host.lower() in {name.lower() for name in names} or wildcard in names


def _zookeeper(config: BrokerConfig) -> Finding:
    from barnabas.cluster.zookeeper import ZooKeeperError, zookeeper_settings

    connect = config["zookeeper.connect"]
    check = f"zookeeper {connect}"
    try:
        settings = zookeeper_settings(config)
        seconds = asyncio.run(_seconds_of_request(replace(settings, root="")))
    except ZooKeeperError as error:
        remedy = "Start it, or correct zookeeper.connect. `barnabas zookeeper run` starts one for trials."
        return problem(check, str(error), remedy)
    except ConfigError as error:
        return problem(check, str(error), "Correct the zookeeper.* settings.")
    text = f"responds in {seconds * 1000:.1f} ms"
    if seconds > SLOW_ZOOKEEPER:
        return warning(check, text, "Use a ZooKeeper that is closer, or give it a faster disk.")
    servers = connect.partition("/")[0].count(",") + 1
    if servers % 2 == 0:
        return warning(
            check, f"{servers} servers", "Use an odd number: an even one tolerates no more failures."
        )
    return ok(check, text)


async def _seconds_of_request(settings: ZooKeeperSettings) -> float:
    from barnabas.cluster.zookeeper import ZooKeeper

    zookeeper = ZooKeeper(settings)
    await zookeeper.start()
    try:
        start = time.perf_counter()
        await zookeeper.sync()
        return time.perf_counter() - start
    finally:
        await zookeeper.close()
