"""`barnabas console`: the web console for any Kafka; `serve --console` starts the same beside a broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import companion as companions
from barnabas.cli.command_config import command_security
from barnabas.cli.companion import address, check_installed, log_to_stderr, read_greeting
from barnabas.cli.companion import beside as companion_of_broker
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.companions import Companion

DEFAULT_LISTEN = "127.0.0.1:8090"
CLUSTER = "default"


def console(
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where browsers connect.")
    ] = DEFAULT_LISTEN,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="Where curves and logs are kept [~/.local/state]."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody changes anything.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    companion: Annotated[bool, typer.Option(companions.OPTION, hidden=True, help=companions.HELP)] = False,
) -> None:
    """Show a cluster in a browser: topics, records, groups, curves, logs. For Barnabas and for Apache Kafka.

    It prints `The console is ready on URL` when pages are served, and runs until Ctrl-C or SIGTERM.

    Examples:

      barnabas console

      barnabas console --bootstrap-server kafka1:9092 --listen 127.0.0.1:8090
    """
    from barnabas.console.server import ConsoleServer
    from barnabas.console.settings import ClusterSettings, ConsoleSettings, default_data
    from barnabas.network.web_process import run

    check_console()
    log_to_stderr()
    security = command_security()
    if companion:
        bootstrap, security = read_greeting()
    cluster = ClusterSettings(CLUSTER, bootstrap, security)
    settings = ConsoleSettings((cluster,), address(listen, "--listen"), data or default_data(), read_only)
    run(lambda: ConsoleServer(settings), _announce, with_parent=companion)


async def beside(broker: Broker, listen: str, config: Path | None) -> Companion:
    """The console as a companion of a broker; its curves are in the broker's first data folder."""
    from barnabas.console.rights import needed_acls

    user = f"barnabas-console-{broker.config['node.id']}"
    data = Path(broker.config.log_dirs[0]) / ".console"
    arguments = ["console", "--listen", listen, "--data", str(data)]
    return await companion_of_broker(broker, "console", user, arguments, needed_acls(user))


def check_console() -> None:
    check_installed("console", "console", ("jinja2", "uvicorn", "pyarrow"))


def _announce(url: str) -> None:
    typer.echo(f"The console is ready on {url}")
    sys.stdout.flush()
