"""`barnabas registry run`: a schema registry for any Kafka; `serve --registry` starts it next to a broker."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli import companion as companions
from barnabas.cli.companion import address, check_installed, log_to_stderr, read_greeting
from barnabas.cli.companion import beside as companion_of_broker
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, command_security
from barnabas.client import Address

if TYPE_CHECKING:
    from barnabas.broker import Broker, BrokerCompanion
    from barnabas.security.tls import TlsSettings
    from barnabas.web import WebLimits

DEFAULT_LISTEN = "127.0.0.1:8081"

app = typer.Typer(help="A schema registry with Confluent's API.", no_args_is_help=True)


@app.callback()
def registry() -> None:
    """A schema registry with Confluent's API: Avro, JSON Schema and Protobuf, kept in the topic _schemas."""


@app.command("run")
def run_registry(
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Listen address.")
    ] = DEFAULT_LISTEN,
    advertised: Annotated[
        str | None,
        typer.Option("--advertised", metavar="HOST:PORT", help="Address for other registries [--listen]."),
    ] = None,
    topic: Annotated[str, typer.Option(help="The topic with the schemas.")] = "_schemas",
    group: Annotated[
        str, typer.Option(help="The group in which registries of one topic elect the writer.")
    ] = "schema-registry",
    tls: Annotated[
        Path | None,
        typer.Option(
            "--tls",
            metavar="FILE",
            help="Enable https: a properties file with ssl.keystore.location and other ssl.* settings of a listener.",
        ),
    ] = None,
    peers: Annotated[
        str,
        typer.Option(
            "--peers",
            metavar="URL,...",
            help="Registries of other makers (Confluent, Karapace) in the group: requests, with clients' credentials, "
            "are forwarded to them when they lead. Registries of this kind need not be listed.",
        ),
    ] = "",
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="Maximum number of HTTP connections.")
    ] = 1000,
    incomplete_per_address: Annotated[
        int,
        typer.Option(
            "--incomplete-per-address",
            min=0,
            help="Maximum connections with an incomplete request per address; 0: half of --connections.",
        ),
    ] = 0,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="An address or network that --incomplete-per-address does not apply to; may be repeated.",
        ),
    ] = None,
    body_timeout: Annotated[
        str, typer.Option("--body-timeout", metavar="TIME", help="Timeout of a request body.")
    ] = "60s",
    body_rate: Annotated[
        int, typer.Option("--body-rate", min=1, help="Minimum average bytes per second of a body.")
    ] = 1024,
    is_open: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Serve all clients without authentication, even if the brokers authenticate clients by certificate.",
        ),
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="A limit on the processing of one schema, such as max-steps=400000 (docs/registry.md). Repeatable.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    companion: Annotated[
        bool,
        typer.Option(companions.OPTION, hidden=True, help=companions.HELP),
    ] = False,
) -> None:
    """Run a schema registry until Ctrl-C or SIGTERM. Several may run: one of them writes, the others forward to it.

    It prints `The schema registry is ready on URL` when it serves requests. If the brokers require authentication, set
    its login in --command-config. Its clients then send their credentials or a token.

    Examples:

      barnabas registry run

      barnabas registry run --listen 0.0.0.0:8081 --advertised registry1:8081 --bootstrap-server kafka1:9092

      barnabas registry run --listen 0.0.0.0:8081 --tls registry-tls.properties

      barnabas registry run --peers http://karapace1:8081,http://karapace2:8081
    """
    from barnabas.services.registry import RegistryServer, RegistrySettings
    from barnabas.web import run

    check_registry()
    log_to_stderr()
    _set_limits(limit or [])
    security = command_security()
    if companion:
        bootstrap, security, _ = read_greeting()
    settings = RegistrySettings(
        bootstrap,
        security,
        address(listen, "--listen"),
        None if advertised is None else address(advertised, "--advertised"),
        topic,
        group,
        None if tls is None else _tls(tls)[0],
        check_peers(peers, "--peers"),
        **({} if tls is None else _tls(tls)[1]),
        is_open=is_open,
        http=_limits(connections, incomplete_per_address, trusted_proxy or [], body_timeout, body_rate),
    )
    made: list[RegistryServer] = []

    def make() -> RegistryServer:
        made.append(RegistryServer(settings, lambda: os.kill(os.getpid(), signal.SIGTERM)))
        return made[0]

    run(make, _announce, with_parent=companion)
    if made[0].is_dead:  # a supervisor starts it again
        raise typer.Exit(1)


async def beside(
    broker: Broker, options: Sequence[str], config: Path | None, *, quiet: bool = False
) -> BrokerCompanion:
    """The registry as a companion of a broker; `options` are those of `registry run`."""
    from barnabas.services.registry import needed_acls

    if _is_known_by_certificate(broker, config) and not _knows_clients(options):
        from barnabas.services.registry import OpenRegistryError

        raise OpenRegistryError
    user = f"barnabas-registry-{broker.config['node.id']}"
    arguments = ["registry", "run", *options]
    broker.registry_address = announced_address(options)
    return await companion_of_broker(
        broker, "schema registry", user, arguments, needed_acls(user), config, quiet=quiet
    )


def announced_address(options: Sequence[str]) -> str:
    """Address announced to clients by the broker; empty if the system chooses the port."""
    listen = address(options[options.index("--listen") + 1], "--listen")
    if not listen.port:
        return ""
    host = "" if listen.host in ("", "0.0.0.0", "::") else listen.host
    return f"{'https' if '--tls' in options else 'http'}://{Address(host, listen.port)}"


def _is_known_by_certificate(broker: Broker, config: Path | None) -> bool:
    """Return True if the broker authenticates the registry, and so its clients, by certificate."""
    from barnabas.client.security import parse_security, read_properties

    if config is not None:
        security = parse_security(read_properties("its configuration", config))
        return security.sasl is None and security.tls is not None and security.tls.certificate is not None
    listener = broker.config.listeners[0]
    asks = broker.config.of_listener(listener.name, "ssl.client.auth") != "none"
    return bool(listener.security_protocol == "SSL" and asks)


def _knows_clients(options: Sequence[str]) -> bool:
    if "--tls" in options:
        path = Path(options[options.index("--tls") + 1])
        return "--open" in options or bool(_tls(path)[1]["client_auth"] == "required")
    return "--open" in options


def _set_limits(texts: Sequence[str]) -> None:
    from barnabas.services.registry.limits import InvalidLimitError, limits

    for text in texts:
        try:
            limits.set(text)
        except InvalidLimitError as error:
            raise typer.BadParameter(str(error), param_hint="--limit") from None


def check_peers(text: str, option: str) -> frozenset[str]:
    from barnabas.services.registry import InvalidPeerError, parse_peers

    try:
        return parse_peers(text)
    except InvalidPeerError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def check_registry() -> None:
    check_installed("schema registry", "registry")


def _tls(path: Path) -> tuple[TlsSettings, dict[str, Any]]:
    """TLS settings: certificate and client authentication."""
    from barnabas.client.security import read_properties
    from barnabas.config.setting import ConfigError
    from barnabas.security.authn import SecuritySettingError
    from barnabas.security.tls import https_context, parse_tls

    try:
        properties = read_properties("--tls", path)
        found, client_auth = parse_tls(properties), properties.get("ssl.client.auth", "none")
        https_context("the schema registry", found, client_auth)  # before anything is started
        rules = properties.get("ssl.principal.mapping.rules", "DEFAULT")
        return found, {"client_auth": client_auth, "mapping_rules": rules}
    except (SecuritySettingError, ConfigError) as error:
        raise typer.BadParameter(str(error), param_hint="--tls") from None


def _limits(
    connections: int, incomplete_per_address: int, proxies: list[str], body_timeout: str, body_rate: int
) -> WebLimits:
    from barnabas.common.durations import seconds_of
    from barnabas.web import WebLimits, parse_networks

    try:
        return WebLimits(
            connections=connections,
            incomplete_per_address=incomplete_per_address,
            body_seconds=seconds_of(body_timeout),
            body_rate=body_rate,
            trusted_proxies=parse_networks(proxies),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _announce(url: str) -> None:
    typer.echo(f"The schema registry is ready on {url}")
    sys.stdout.flush()
