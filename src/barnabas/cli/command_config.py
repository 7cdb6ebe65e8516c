"""`--command-config FILE`: TLS and SASL for a command, from a properties file as Kafka's own tools take it.

Every command that has `--bootstrap-server` has it. It is added here, in one place, so that none is forgotten; a command
that makes a client asks `command_security()`.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperOption

if TYPE_CHECKING:
    from barnabas.client.security.settings import Security

OPTION = "--command-config"
VARIABLE = "BARNABAS_COMMAND_CONFIG"
_HELP = "A properties file with security.protocol, ssl.* and sasl.* settings, as for Kafka's tools."

_file: ContextVar[str | None] = ContextVar("command_config", default=None)

Command = Any  # typer does not export the types of the click inside it


def add_to_commands(group: Command) -> None:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            add_to_commands(command)
        places = [at for at, option in enumerate(command.params) if "--bootstrap-server" in option.opts]
        if places:
            command.params.insert(places[0] + 1, _option())


def command_config() -> Path | None:
    """The file that this command was given."""
    given = _file.get()
    return Path(given) if given else None


def command_security() -> Security:
    """SecuritySettingError, which names the setting, for what is wrong in the file."""
    from barnabas.client.security.parsing import parse_security
    from barnabas.client.security.references import read_properties

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
