"""docs/commands.md: every command of `barnabas` with its options, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer

from barnabas.cli.main import make_app
from tools.doc_marks import GENERATED

# typer brings its own copy of click, whose types it does not export: commands are Any here.
Command = Any


def commands() -> Iterator[tuple[str, Command]]:
    """Every command, groups included, with its full name."""
    yield from _walk("barnabas", typer.main.get_command(make_app()))


def _walk(path: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield path, command
    if not hasattr(command, "list_commands"):
        return
    context = command.context_class(command, info_name=path)
    for name in command.list_commands(context):
        yield from _walk(f"{path} {name}", command.get_command(context, name))


def options_of(command: Command) -> Iterator[tuple[str, str]]:
    """Arguments and options of the command, with their help texts."""
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            yield (
                parameter.make_metavar(command.context_class(command)),
                getattr(parameter, "help", None) or "",
            )
        else:
            yield ", ".join([*parameter.opts, *parameter.secondary_opts]), parameter.help or ""


def commands_page() -> str:
    sections = [_section(path, command) for path, command in commands() if path != "barnabas"]
    head = [GENERATED, "# Commands\n", "`barnabas COMMAND --help` prints the same text.\n"]
    return "\n".join([*head, *sections])


def _section(path: str, command: Command) -> str:
    lines = [f"## `{path}`\n", (command.help or "").strip() + "\n"]
    options = list(options_of(command))
    if options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{names}` | {' '.join(text.split())} |" for names, text in options]
        lines.append("")
    return "\n".join(lines)
