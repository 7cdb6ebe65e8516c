"""`barnabas registry run`: a schema registry for any Kafka; `serve --registry` starts the same beside a broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import companion as companions
from barnabas.cli.options import command_security
from barnabas.cli.companion import address, check_installed, log_to_stderr, read_greeting
from barnabas.cli.companion import beside as companion_of_broker
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.companions import Companion
    from barnabas.security.tls.settings import Tls

DEFAULT_LISTEN = "127.0.0.1:8081"

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
        typer.Option(companions.OPTION, hidden=True, help=companions.HELP),
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
    from barnabas.web.process import run
    from barnabas.services.registry.server import RegistryServer, RegistrySettings

    check_registry()
    log_to_stderr()
    security = command_security()
    if companion:
        bootstrap, security = read_greeting()
    settings = RegistrySettings(
        bootstrap,
        security,
        address(listen, "--listen"),
        None if advertised is None else address(advertised, "--advertised"),
        topic,
        group,
        None if tls is None else _tls(tls),
    )
    run(lambda: RegistryServer(settings), _announce, with_parent=companion)


async def beside(broker: Broker, listen: str, config: Path | None, tls: Path | None = None) -> Companion:
    """The registry as a companion of a broker."""
    from barnabas.services.registry.needs import needed_acls

    user = f"barnabas-registry-{broker.config['node.id']}"
    arguments = ["registry", "run", "--listen", listen, *([] if tls is None else ["--tls", str(tls)])]
    return await companion_of_broker(broker, "schema registry", user, arguments, needed_acls(user), config)


def check_registry() -> None:
    check_installed("schema registry", "registry", ("avro", "uvicorn", "google.protobuf"))


def _tls(path: Path) -> Tls:
    from barnabas.client.security.parsing import read_properties
    from barnabas.config.setting import ConfigError
    from barnabas.security.authn.credentials import SecuritySettingError
    from barnabas.security.tls.server import https_context
    from barnabas.security.tls.settings import parse_tls

    try:
        found = parse_tls(read_properties("--tls", path))
        https_context("the schema registry", found)  # before anything is started
        return found
    except (SecuritySettingError, ConfigError) as error:
        raise typer.BadParameter(str(error), param_hint="--tls") from None


def _announce(url: str) -> None:
    typer.echo(f"The schema registry is ready on {url}")
    sys.stdout.flush()
