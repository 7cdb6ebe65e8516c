"""`barnabas registry run`: a schema registry for any Kafka; `serve --registry` starts the same beside a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.command_config import command_security
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from barnabas.client.addresses import Address, parse_address

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.companions import Companion
    from barnabas.client.security.settings import Security
    from barnabas.security.tls.settings import Tls

DEFAULT_LISTEN = "127.0.0.1:8081"
COMPANION = "--companion"

app = typer.Typer(help="A schema registry with Confluent's API.", no_args_is_help=True)


@app.callback()
def registry() -> None:
    """A schema registry with Confluent's API: Avro, JSON Schema and Protobuf, kept in the topic _schemas."""


@app.command("run")
def run_registry(
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where clients connect.")
    ] = DEFAULT_LISTEN,
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised", metavar="HOST:PORT", help="Where other registries reach this one [--listen]."
        ),
    ] = None,
    topic: Annotated[str, typer.Option(help="The topic with the schemas.")] = "_schemas",
    group: Annotated[
        str, typer.Option(help="The group in which registries of one topic choose who writes.")
    ] = "schema-registry",
    tls: Annotated[
        Path | None,
        typer.Option(
            "--tls",
            metavar="FILE",
            help="Speak https: a properties file with ssl.keystore.location, ... as a listener of a broker has them.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    companion: Annotated[
        bool,
        typer.Option(COMPANION, hidden=True, help="Of a broker, which says the rest over standard input."),
    ] = False,
) -> None:
    """Run a schema registry until Ctrl-C or SIGTERM. Several may run: one of them writes, the others forward to it.

    It prints `The schema registry is ready on URL` when schemas can be looked up. With brokers that ask for a name,
    --command-config says how it logs in, and its clients give name and password (or a token) of their own.

    Examples:

      barnabas registry run

      barnabas registry run --listen 0.0.0.0:8081 --advertised registry1:8081 --bootstrap-server kafka1:9092

      barnabas registry run --listen 0.0.0.0:8081 --tls registry-tls.properties
    """
    from barnabas.registry.process import run
    from barnabas.registry.server import RegistrySettings

    check_installed()
    _log_to_stderr()
    security = command_security()
    if companion:
        bootstrap, security = _greeting()
    settings = RegistrySettings(
        bootstrap,
        security,
        _address(listen, "--listen"),
        None if advertised is None else _address(advertised, "--advertised"),
        topic,
        group,
        None if tls is None else _tls(tls),
    )
    run(settings, _announce, with_parent=companion)


async def beside(broker: Broker, listen: str, config: Path | None, tls: Path | None = None) -> Companion:
    """The registry as a companion of a broker, with a login that the broker makes for it."""
    from barnabas.broker.companions import Companion
    from barnabas.broker.security.companion_login import login_of
    from barnabas.client.security.references import read_properties
    from barnabas.registry.needs import needed_acls

    name = f"barnabas-registry-{broker.config['node.id']}"
    spec, port = broker.config.listeners[0], broker.listeners[0].port
    if config is None:
        bootstrap, settings = await login_of(broker, spec, port, name, needed_acls(name))
    else:
        settings = dict(read_properties("--registry-config", config))
        bootstrap = settings.get("bootstrap.servers", str(Address(spec.host or "127.0.0.1", port)))
    greeting = {"bootstrap": bootstrap, "settings": settings}
    command = [
        "registry",
        "run",
        "--listen",
        listen,
        *([] if tls is None else ["--tls", str(tls)]),
        COMPANION,
    ]
    started = Companion("schema registry", command, greeting)
    started.start()
    return started


def check_installed() -> None:
    """The registry is an extra."""
    from importlib.util import find_spec

    missing = [name for name in ("avro", "uvicorn", "google.protobuf") if not _is_there(find_spec, name)]
    if missing:
        text = f"the schema registry needs {', '.join(missing)}: pip install 'barnabas[registry]'"
        raise typer.BadParameter(text)


def _is_there(find: Callable[[str], object], name: str) -> bool:
    try:
        return find(name) is not None
    except ModuleNotFoundError:
        return False


def _greeting() -> tuple[str, Security]:
    """What the broker says over the pipe; the reads are of single bytes, so that nothing behind it is lost."""
    import os

    from barnabas.client.security.parsing import parse_security

    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    if not line:
        raise typer.BadParameter("only `barnabas serve --registry` says this", param_hint=COMPANION)
    told = json.loads(line)
    return told["bootstrap"], parse_security(told["settings"])


def _tls(path: Path) -> Tls:
    from barnabas.client.security.references import read_properties
    from barnabas.config.setting import ConfigError
    from barnabas.registry.server import server_tls
    from barnabas.security.secret import SecuritySettingError
    from barnabas.security.tls.settings import parse_tls

    try:
        found = parse_tls(read_properties("--tls", path))
        server_tls(found)  # before anything is started
        return found
    except (SecuritySettingError, ConfigError) as error:
        raise typer.BadParameter(str(error), param_hint="--tls") from None


def _announce(url: str) -> None:
    typer.echo(f"The schema registry is ready on {url}")
    sys.stdout.flush()


def _address(text: str, option: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _log_to_stderr() -> None:
    import logging

    from barnabas.log_lines import plain_lines

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for handler in logging.root.handlers:
        handler.addFilter(plain_lines)
