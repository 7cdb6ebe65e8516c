"""Options that many commands share, with the same names and help texts everywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperOption

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.security import ClientSecurity


# -- `--command-config FILE`: TLS and SASL for a command, from a properties file, as for Kafka's tools

OPTION = "--command-config"
VARIABLE = "BARNABAS_COMMAND_CONFIG"
_HELP = "A properties file with security.protocol, ssl.* and sasl.* settings, as for Kafka's tools."

_file: ContextVar[str | None] = ContextVar("command_config", default=None)

Command = Any  # typer does not export the types of the click inside it


def add_to_commands(group: Command) -> None:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            add_to_commands(command)
        positions = [at for at, option in enumerate(command.params) if "--bootstrap-server" in option.opts]
        if positions:
            command.params.insert(positions[0] + 1, _option())


def command_config() -> Path | None:
    """File given to this command."""
    value = _file.get()
    return Path(value) if value else None


def command_security() -> ClientSecurity:
    """Parse the file. Raises SecuritySettingError with the name of a wrong setting."""
    from barnabas.client.security import parse_security, read_properties

    file = command_config()
    return parse_security({} if file is None else read_properties(OPTION, file), references=True)


def _option() -> TyperOption:
    return TyperOption(
        param_decls=["command_config", OPTION],
        type=str,
        metavar="FILE",
        envvar=VARIABLE,
        show_envvar=True,
        expose_value=False,
        callback=_remember,
        help=_HELP,
    )


def _remember(context: Any, option: Any, value: str | None) -> None:
    _file.set(value)


DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Brokers of the cluster, comma-separated.",
    ),
]

Otlp = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="URL",
        help="Export metrics to an OpenTelemetry collector: http://127.0.0.1:4318 [OTEL_EXPORTER_OTLP_ENDPOINT].",
    ),
]
Output = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="Output format: a table, or JSON."),
]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting by Kafka's name; may be repeated."),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated.")
]


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """Parse `["retention.ms=1000"]` as a mapping. Raises a usage error for text without `=`."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, for example retention.ms=86400000")
        settings[name.strip()] = value.strip()
    return settings


def parse_headers(texts: list[str] | None) -> list[tuple[str, bytes | None]]:
    """Each `NAME=VALUE`, or `NAME` for a header without a value."""
    return [_parse_header(text) for text in texts or ()]


def _parse_header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode() if equals else None


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation; a negative answer ends the command."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


# -- A client for one command or one completion --------------------------------------

T = TypeVar("T")

TIMEOUT = (
    30.0  # timeout in seconds of one call with all its retries, so that the command does not appear to hang
)
COMPLETION_TIMEOUT = 1.0


def with_client(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run a coroutine function with a connected client and return its result."""
    import asyncio

    return asyncio.run(_run(bootstrap, work))


async def _run(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    from barnabas.client import Client
    from barnabas.security.authn import SecuritySettingError

    try:
        security = command_security()
        client = Client(bootstrap, client_id="barnabas-cli", total_timeout=TIMEOUT, security=security)
    except SecuritySettingError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap-server") from None
    async with client:
        return await work(client)


def complete_topic(ctx: Any, incomplete: str) -> list[str]:
    """Complete topic names for the shell; empty if the broker does not answer."""
    return _complete(ctx, incomplete, _topics)


def complete_group(ctx: Any, incomplete: str) -> list[str]:
    """Complete group ids for the shell, as `complete_topic`."""
    return _complete(ctx, incomplete, _groups)


def _complete(ctx: Any, incomplete: str, read: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    import asyncio

    try:
        names = asyncio.run(_within_deadline(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP, read))
    except Exception:  # any error: a traceback in the middle of a command line does not help
        return []
    return sorted(name for name in names if name.startswith(incomplete))


async def _within_deadline(bootstrap: str, read: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    import asyncio

    from barnabas.client import Client

    async with asyncio.timeout(COMPLETION_TIMEOUT), Client(bootstrap, security=command_security()) as client:
        return await read(client)


async def _topics(client: Client) -> list[str]:
    return list(await client.all_topics())


async def _groups(client: Client) -> list[str]:
    from barnabas.client.groups import list_groups

    return [group.group_id for _, group in await list_groups(client)]
