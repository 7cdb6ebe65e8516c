"""`barnabas serve`: run a broker until a signal stops it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import Settings, parse_settings
from barnabas.client import Address, parse_address

if TYPE_CHECKING:
    from barnabas.broker import Broker, BrokerCompanion
    from barnabas.broker.processes import NodeConfig
    from barnabas.config.broker import BrokerConfig

DEFAULT_LISTEN = "127.0.0.1:9092"

# Defaults set by --users, overridden by the file and --set. The first user is the super user.
WITH_USERS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


class TlsOption(StrEnum):
    AUTO = "auto"


def serve(
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="The data folder; created if missing."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help=f"Listen address [{DEFAULT_LISTEN}]."),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option("--node-id", "-n", min=0, help="The id of this broker, unique in its cluster [1]."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT,.../PATH",
            help="The ZooKeeper of a cluster of several brokers; without it, a single node.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A server.properties file with Kafka's names."),
    ] = None,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment",
            help="Also read the environment variables of Kafka's container images: KAFKA_LOG_DIRS, CLUSTER_ID, ...",
        ),
    ] = False,
    tls: Annotated[
        TlsOption | None,
        typer.Option(
            "--tls",
            help="auto: enable TLS with certificates that are created in the data folder.",
        ),
    ] = None,
    users: Annotated[
        bool,
        typer.Option(
            "--users",
            help="Enable SASL/SCRAM authentication and ACLs; the first user is created and printed once.",
        ),
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="HOST:PORT", help="Also run a schema registry, at this address."),
    ] = None,
    registry_config: Annotated[
        Path | None,
        typer.Option(
            "--registry-config",
            metavar="FILE",
            help="Client settings of the registry if the broker cannot create a login for it.",
        ),
    ] = None,
    registry_tls: Annotated[
        Path | None,
        typer.Option(
            "--registry-tls",
            metavar="FILE",
            help="TLS settings of the registry (`barnabas registry run --tls`).",
        ),
    ] = None,
    registry_peers: Annotated[
        str | None,
        typer.Option(
            "--registry-peers",
            metavar="URL,...",
            help="Registries of other vendors that may lead (`barnabas registry run --peers`).",
        ),
    ] = None,
    registry_open: Annotated[
        bool,
        typer.Option(
            "--registry-open",
            help="The registry serves all clients without authentication, even if listeners use certificates.",
        ),
    ] = False,
    registry_limit: Annotated[
        list[str] | None,
        typer.Option(
            "--registry-limit",
            metavar="NAME=VALUE",
            help="Limits of the registry (`barnabas registry run --limit`).",
        ),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option("--console", metavar="HOST:PORT", help="Also run the web console, at this address."),
    ] = None,
    console_config: Annotated[
        Path | None,
        typer.Option(
            "--console-config",
            metavar="FILE",
            help="console.yml of the console: login, roles, masking (docs/console.md).",
        ),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            "-p",
            metavar="N|auto",
            help="Broker processes of this node, on consecutive ports; auto: one for each CPU [1].",
        ),
    ] = None,
    settings: Settings = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at DEBUG level.")] = False,
) -> None:
    """Run a broker.

    It prints `Barnabas is ready on HOST:PORT` when clients can connect, and shuts down cleanly on Ctrl-C or SIGTERM.
    Options override --set, --set overrides --environment, and that overrides the file.

    Examples:

      barnabas serve --data ./data

      barnabas serve --data /var/lib/barnabas --listen 0.0.0.0:9092 --set log.retention.hours=24

      barnabas serve --node-id 2 --zookeeper zk1:2181,zk2:2181,zk3:2181/barnabas --data ./data --listen 0.0.0.0:9092

      barnabas serve --data ./data --listen 0.0.0.0:9093 --tls auto --users

      barnabas serve --data ./data --registry 127.0.0.1:8081 --console 127.0.0.1:8090

      barnabas serve --data ./data --listen 0.0.0.0:9092 --processes auto

      barnabas serve --config server.properties
    """
    from barnabas.config.broker import BrokerConfig

    options = {"node.id": node_id, "zookeeper.connect": zookeeper, "barnabas.processes": processes}
    values = {**parse_settings(settings), **_given(options)}
    if environment:
        values, config = {**_read_environment(config), **values}, None
    properties = collect_properties(data, listen, config, values, tls, users=users)
    broker_config = BrokerConfig.load(properties)
    check_folders(broker_config.log_dirs)
    log_to_stderr(verbose)
    for warning in broker_config.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    companions: list[MakeCompanion] = []
    addresses: dict[str, Address] = {}
    registry_options: list[str] = []
    if registry is not None:
        registry_options = _registry_options(registry, registry_tls, registry_peers, registry_limit)
        registry_options += ["--open"] if registry_open else []
        addresses["--registry"], make = _registry(registry, registry_config, registry_options)
        companions.append(make)
    if console is not None:
        has_login = broker_config.listeners[0].security_protocol.startswith("SASL")
        addresses["--console"], make = _console(console, console_config, has_login=has_login)
        companions.append(make)
    lines_of = partial(_ready_lines, users=users)
    if broker_config["barnabas.processes"] != "1":
        from barnabas.broker.processes import NodeConfig, process_count

        count = process_count(broker_config["barnabas.processes"])
        if count > 1:
            ports = {option: each.port for option, each in addresses.items()}
            run_node(NodeConfig(properties, count, ports), lines_of, companions, registry_options)
            return
    run = import_broker()  # slow import, after the settings are checked

    async def announce(broker: Broker) -> None:
        _print_lines(await lines_of(broker))

    run(broker_config, announce, companions)


def run_node(
    node: NodeConfig, lines_of: LinesOf, companions: list[MakeCompanion], registry_options: list[str]
) -> None:
    """Serve with several processes."""
    import_broker()
    from barnabas.broker.processes import NodeService, Supervisor
    from barnabas.cli.registry import announced_address

    registry = announced_address(registry_options) if registry_options else ""
    Supervisor(node, NodeService(lines_of, _print_lines, companions, registry)).run()


def check_folders(folders: Iterable[str]) -> None:
    """Report a file given as data folder as a usage error, not as a failed disk."""
    for folder in map(Path, folders):
        if folder.exists() and not folder.is_dir():
            raise typer.BadParameter(
                f"{folder} is not a folder; --data (log.dirs) names the folder of the data"
            )


def import_broker() -> Callable[..., None]:
    """Import without garbage collection, which takes a tenth of the time and frees nothing."""
    import gc

    _import_msgspec()
    gc.disable()
    from barnabas.broker import run

    gc.freeze()
    gc.enable()
    return run


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which takes 7 MB for names that `typing` has as well."""
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # so that importing it fails
    try:
        import msgspec  # noqa: F401 - for the modules that import it later
    finally:
        del sys.modules["typing_extensions"]


MakeCompanion = Callable[["Broker"], Awaitable["BrokerCompanion"]]
LinesOf = Callable[["Broker"], Awaitable[list[str]]]


def _registry_options(
    listen: str, tls: Path | None, peers: str | None, limits: list[str] | None
) -> list[str]:
    """Options of `barnabas registry run`."""
    options = _given({"--tls": tls, "--peers": peers}).items()
    return [
        *("--listen", listen),
        *(text for option in options for text in option),
        *(text for limit in limits or () for text in ("--limit", limit)),
    ]


def _registry(listen: str, config: Path | None, options: list[str]) -> tuple[Address, MakeCompanion]:
    from barnabas.cli.companion import address
    from barnabas.cli.registry import beside, check_registry

    check_registry()
    return address(listen, "--registry"), partial(beside, options=options, config=config)


def _console(listen: str, config: Path | None, *, has_login: bool) -> tuple[Address, MakeCompanion]:
    from barnabas.cli.companion import address
    from barnabas.cli.console import beside, check_console, check_exposure

    check_console()
    parsed = address(listen, "--console")
    check_exposure(parsed, config, "--console", has_login=has_login)
    return parsed, partial(beside, listen=listen, config=config)


async def _ready_lines(broker: Broker, *, users: bool) -> list[str]:
    """The ready message, which scripts wait for, and the first user and certificate."""
    lines = await _first_user(broker) if users and broker.is_first_of_node else []
    if broker.config["barnabas.tls.auto"]:
        lines += _trust(broker.config)
    return lines + [
        f"Barnabas is ready on {Address(listener.host or '0.0.0.0', listener.port)}"
        for listener in broker.listeners
    ]


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
    sys.stdout.flush()


async def _first_user(broker: Broker) -> list[str]:
    from barnabas.broker.security import FIRST_USER, create_first_user

    password = await create_first_user(broker)
    if password is None:
        return []
    return [
        f"The first user is {FIRST_USER} with the password {password}",
        "  It is a super user; the password is not shown again.",
    ]


def _trust(config: BrokerConfig) -> list[str]:
    from barnabas.broker.security import authority_of

    path = authority_of(config).certificate.resolve()
    return [
        f"Clients trust {path}; copy only this file to them:",
        f"  Java and Spark: ssl.truststore.type=PEM ssl.truststore.location={path.name}",
        f"  librdkafka:     ssl.ca.location={path.name}",
    ]


def _given(options: Mapping[str, object]) -> dict[str, str]:
    """The options that are given, as text."""
    return {name: str(value) for name, value in options.items() if value is not None}


def collect_properties(
    data: Path | None,
    listen: str | None,
    config: Path | None,
    settings: dict[str, str],
    tls: TlsOption | None = None,
    *,
    users: bool = False,
) -> dict[str, str]:
    """Merge the settings of the file, --set and the options, in ascending precedence."""
    properties = {**_read_file(config), **settings}
    if data is not None:
        properties["log.dirs"] = str(data)
        properties.pop("log.dir", None)
    if listen is not None or "listeners" not in properties:
        properties["listeners"] = _listeners(listen or DEFAULT_LISTEN, _protocol(tls, users=users))
    if users:
        properties = {**WITH_USERS, **properties}
    if tls is not None:
        properties["barnabas.tls.auto"] = "true"
    if "log.dirs" not in properties and "log.dir" not in properties:
        raise typer.BadParameter("no data folder: give --data DIR (or log.dirs in the file)")
    return properties


def _read_environment(config: Path | None) -> dict[str, str]:
    from barnabas.cli.container import container_settings

    properties, notices = container_settings(config)
    for notice in notices:
        typer.echo(f"Notice: {notice}", err=True)
    return properties


def _read_file(path: Path | None) -> dict[str, str]:
    from barnabas.config.properties import parse_properties

    return {} if path is None else parse_properties(path.read_text(encoding="utf-8"))


def _protocol(tls: TlsOption | None, *, users: bool) -> str:
    if users:
        return "SASL_PLAINTEXT" if tls is None else "SASL_SSL"
    return "PLAINTEXT" if tls is None else "SSL"


def _listeners(listen: str, protocol: str) -> str:
    """`HOST:PORT`, or Kafka's notation with listener names, unchanged."""
    if "://" in listen:
        return listen
    try:
        return f"{protocol}://{parse_address(listen)}"
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from None


def log_to_stderr(verbose: bool, *, quiet: bool = False) -> None:
    import logging

    from barnabas.common.safe_logging import plain_lines

    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for handler in logging.root.handlers:  # messages of asyncio and other libraries may quote clients
        handler.addFilter(plain_lines)
