"""`barnabas dev`: everything for development on one machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.companion import address, missing_packages
from barnabas.cli.options import Settings, parse_settings
from barnabas.cli.serve import check_folders, collect_properties, import_broker, log_to_stderr
from barnabas.client import Address

if TYPE_CHECKING:
    from barnabas.broker import Broker, BrokerCompanion
    from barnabas.cli.dev.session import DevEndpoint

HOST = "127.0.0.1"
KAFKA_PORT, REGISTRY_PORT, CONSOLE_PORT = 9092, 8081, 8090

# For one machine and few clients: no wait for other members of a group, no 50 partitions of internal topics.
FOR_DEVELOPMENT = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def dev(
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="Folder for the data [a temporary folder]."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help=f"The broker [{HOST}:{KAFKA_PORT}]."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="HOST:PORT", help=f"The registry [{HOST}:{REGISTRY_PORT}]."),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option("--console", metavar="HOST:PORT", help=f"The console [{HOST}:{CONSOLE_PORT}]."),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample/--no-sample", help="Write sample data: the topics orders and clicks.")
    ] = True,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
    settings: Settings = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the log of the services.")] = False,
) -> None:
    """Run a broker, a schema registry and a console with sample data, for development.

    No passwords; this machine only. The data is deleted at the end unless --data is given. A default port that is in
    use is replaced by a free one. Use `barnabas serve` for everything else.

    Examples:

      barnabas dev

      barnabas dev --data ./dev-data --no-sample --open
    """
    started = time.monotonic()
    kafka = _endpoint("Kafka", listen, KAFKA_PORT, "--listen")
    endpoints = [
        kafka,
        _companion_endpoint("Registry", "registry", registry, REGISTRY_PORT),
        _companion_endpoint("Console", "console", console, CONSOLE_PORT),
    ]
    with _data_folder(data) as folder:
        from barnabas.cli.dev.session import DevSession
        from barnabas.config.broker import BrokerConfig

        value = {**FOR_DEVELOPMENT, **parse_settings(settings)}
        config = BrokerConfig.load(collect_properties(folder, str(kafka.address), None, value))
        check_folders(config.log_dirs)
        log_to_stderr(verbose, quiet=not verbose)
        run = import_broker()
        companions = [
            partial(_start_registry, endpoints[1], quiet=not verbose),
            partial(_start_console, endpoints[2], quiet=not verbose),
        ]
        session = DevSession(endpoints, folder if data is not None else None, sample, open_browser, started)
        used = [make for make, endpoint in zip(companions, endpoints[1:], strict=True) if endpoint.address]
        run(config, _announce_nothing, [*used, session.start])


def _companion_endpoint(name: str, extra: str, value: str | None, port: int) -> DevEndpoint:
    from barnabas.cli.dev.session import DevEndpoint
    from barnabas.common.installation import extra_command

    if not missing_packages(extra):
        return _endpoint(name, value, port, f"--{extra}")
    if value is not None:
        raise typer.BadParameter(f"needs {extra_command(extra)}", param_hint=f"--{extra}")
    return DevEndpoint(name, None, f"not installed: {extra_command(extra)}")


def _endpoint(name: str, value: str | None, port: int, option: str) -> DevEndpoint:
    from barnabas.cli.dev.session import DevEndpoint

    if value is not None:
        wanted = address(value, option)
        return DevEndpoint(name, wanted if wanted.port else wanted._replace(port=_free_port()))
    if _is_free(port):
        return DevEndpoint(name, Address(HOST, port))
    return DevEndpoint(name, Address(HOST, _free_port()), f"(port {port} is in use)")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _data_folder(value: Path | None) -> Iterator[Path]:
    if value is not None:
        yield value
        return
    folder = Path(tempfile.mkdtemp(prefix="barnabas-dev-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _start_registry(endpoint: DevEndpoint, broker: Broker, *, quiet: bool) -> BrokerCompanion:
    from barnabas.cli.registry import beside

    return await beside(broker, ["--listen", str(endpoint.address)], None, quiet=quiet)


async def _start_console(endpoint: DevEndpoint, broker: Broker, *, quiet: bool) -> BrokerCompanion:
    from barnabas.cli.console import beside

    return await beside(broker, str(endpoint.address), None, quiet=quiet)


async def _announce_nothing(broker: Broker) -> None:
    """The session prints the addresses later."""
