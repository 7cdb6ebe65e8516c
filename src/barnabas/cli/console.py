"""`barnabas console`: the web console for any Kafka; `serve --console` starts it next to a broker."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import companion as companions
from barnabas.cli.companion import address, check_installed, log_to_stderr, read_greeting
from barnabas.cli.companion import beside as companion_of_broker
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, command_security
from barnabas.cli.output import say, show_json

if TYPE_CHECKING:
    from barnabas.broker import Broker, BrokerCompanion
    from barnabas.client import Address
    from barnabas.services.console import ClusterSettings, ConsoleSettings

CLUSTER = "default"

app = typer.Typer()


@app.callback(invoke_without_command=True)
def console(
    command: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="Clusters, login, roles, masks (console.yml); --listen, --data and --read-only take precedence.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where browsers connect [127.0.0.1:8090]."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="The folder for charts and logs [~/.local/state]."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable all changes.")] = False,
    exporter_only: Annotated[
        bool,
        typer.Option(
            "--exporter-only", help="Serve only /metrics, compatible with kafka_exporter; no pages."
        ),
    ] = False,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens", metavar="FILE", help="With --exporter-only: accepted bearer tokens, one per line."
        ),
    ] = None,
    publish_metrics: Annotated[
        str,
        typer.Option(
            "--publish-metrics", metavar="TOPIC", help="Write metrics to a topic, for `operations`."
        ),
    ] = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    companion: Annotated[bool, typer.Option(companions.OPTION, hidden=True, help=companions.HELP)] = False,
) -> None:
    """Show a cluster in a browser: topics, records, groups, charts, logs. For Barnabas and Apache Kafka.

    It prints `The console is ready on URL` when pages are served, and runs until Ctrl-C or SIGTERM.

    Examples:

      barnabas console

      barnabas console --bootstrap-server kafka1:9092 --listen 127.0.0.1:8090

      barnabas console --config console.yml

      barnabas console --exporter-only --listen 0.0.0.0:9308 --tokens tokens.txt
    """
    if command.invoked_subcommand is not None:
        return
    from barnabas.client.schemas import NO_ACCOUNT, RegistryAccount
    from barnabas.services.console import DEFAULT_LISTEN, ClusterSettings, ConsoleSettings
    from barnabas.web import run

    if not exporter_only:
        check_console()
    log_to_stderr()
    # A refresh of a large cluster creates 100,000 long-lived objects. A full garbage collection, which Python starts
    # whenever a quarter more exist, would delay pages too long.
    gc.set_threshold(20_000, 20, 100)
    security = command_security()
    registry = ""
    if companion:
        bootstrap, security, registry = read_greeting()
    account = RegistryAccount.at(registry) if registry else NO_ACCOUNT
    cluster = ClusterSettings(CLUSTER, bootstrap, security, account, registry_by_user=bool(registry))
    if exporter_only:
        where = DEFAULT_LISTEN if listen is None else address(listen, "--listen")
        _run_exporter(cluster, where, tokens, publish_metrics)
        return
    settings = ConsoleSettings((cluster,)) if config is None else _read(config, cluster)
    settings = with_login_of_brokers(settings) if companion else settings
    settings = replace(
        settings,
        listen=settings.listen if listen is None else address(listen, "--listen"),
        data=data or settings.data,
        read_only=read_only or settings.read_only,
        publish_metrics=publish_metrics or settings.publish_metrics,
    )
    from barnabas.services.console import ConsoleServer  # needs the extra

    run(lambda: ConsoleServer(settings), _announce, with_parent=companion)


def _run_exporter(
    cluster: ClusterSettings, listen: Address, tokens: Path | None, publish_metrics: str
) -> None:
    from barnabas.services.console.exporter import ExporterServer
    from barnabas.web import run

    tokens_file = "" if tokens is None else str(tokens)
    run(lambda: ExporterServer(cluster, listen, tokens_file, publish_metrics), _announce_exporter)


async def beside(broker: Broker, listen: str, config: Path | None, *, quiet: bool = False) -> BrokerCompanion:
    """The console as a companion of a broker. It stores its charts in the broker's first data folder."""
    from barnabas.services.console import needed_acls

    user = f"barnabas-console-{broker.config['node.id']}"
    data = Path(broker.config.log_dirs[0]) / ".console"
    arguments = ["console", "--listen", listen, "--data", str(data)]
    if config is not None:
        arguments += ["--config", str(config)]
    registry = _local(broker.registry_address)
    return await companion_of_broker(
        broker, "console", user, arguments, needed_acls(user), quiet=quiet, registry=registry
    )


def _local(url: str) -> str:
    """URL of the registry next to the broker; it is announced without a host if it listens on all addresses."""
    return url.replace("://:", "://127.0.0.1:", 1)


def with_login_of_brokers(settings: ConsoleSettings) -> ConsoleSettings:
    """Console for brokers that require authentication: uses the same login unless its file configures another."""
    login = settings.access.login
    if login.is_chosen or any(each.security.sasl is None for each in settings.clusters):
        return settings
    from barnabas.services.console import LoginKind

    return replace(settings, access=replace(settings.access, login=replace(login, kind=LoginKind.KAFKA)))


@app.command()
def password(output: Output = OutputFormat.TABLE) -> None:
    """Hash a password for `users` in console.yml. The password is prompted for, or read as a line from a pipe.

    Example:

      barnabas console password
    """
    from barnabas.services.console.access import hash_of

    value = typer.prompt("Password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else ""
    value = value or sys.stdin.readline().rstrip("\n")
    if not value:
        raise typer.BadParameter("the password is empty")
    made = str(hash_of(value))
    if output is OutputFormat.JSON:
        show_json({"password": made})
    else:
        print(made)


@app.command()
def token(output: Output = OutputFormat.TABLE) -> None:
    """Create an API token, and its digest for `tokens` in console.yml.

    Example:

      barnabas console token
    """
    from barnabas.services.console.access import new_token

    made, digest = new_token()
    if output is OutputFormat.JSON:
        show_json({"token": made, "digest": digest})
        return
    say("The token is not shown again; send it as `Authorization: Bearer TOKEN`.")
    print(f"token:  {made}\ndigest: {digest}")


def _read(config: Path, cluster: ClusterSettings) -> ConsoleSettings:
    from barnabas.services.console.access import read_console_file

    return read_console_file(config, cluster)


def check_exposure(listen: Address, config: Path | None, option: str, *, has_login: bool) -> None:
    """Validate the console's exposure before the broker starts; `has_login`: the broker requires authentication."""
    from barnabas.common.addresses import is_loopback
    from barnabas.services.console.access import ExposedConsoleError

    if config is None and not has_login and not is_loopback(listen.host):
        raise typer.BadParameter(str(ExposedConsoleError(str(listen))), param_hint=option)


def check_console() -> None:
    check_installed("console", "console")


def _announce_exporter(url: str) -> None:
    typer.echo(f"The exporter is ready on {url}")
    sys.stdout.flush()


def _announce(url: str) -> None:
    typer.echo(f"The console is ready on {url}")
    sys.stdout.flush()
