"""Assembles the commands of `barnabas`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from barnabas.cli.options import Output, OutputFormat, add_to_commands
from barnabas.cli.output import show_json

# -- The command group at the top: turns expected errors into messages and exit codes ------------------

INTERRUPTED = 130  # exit code of a program interrupted by Ctrl-C, as in shells


class CommandGroup(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        add_to_commands(self)
        self._command: tuple[str, ...] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._command = tuple(args[:2])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # `barnabas consume ... | head`: the reader has closed the pipe. Python would report it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            code = _report(error, self._command)
            if code is None:
                raise
            raise typer.Exit(code) from error


def _report(error: Exception, command: tuple[str, ...]) -> int | None:
    """Print an explanation and return the exit code; None for usage errors and bugs."""
    from barnabas.cli.failures import explain

    explained = explain(error, command)
    if explained is None:
        return None
    text, code = explained
    typer.echo(f"Error: {text}", err=True)
    return code


EPILOG = (
    "First steps: `barnabas serve --data ./data`, then in another window "
    "`echo hello | barnabas produce greetings` and `barnabas consume greetings --from beginning --exit-at-end`."
)

# Name -> module of `barnabas.cli`. A command is a function of that name, a group an `app`.
COMMANDS = {
    "dev": "dev.commands",
    "doctor": "doctor.commands",
    "serve": "serve",
    "produce": "records.produce",
    "consume": "records.consume",
    "sql": "tables.sql",
    "bench": "bench.commands",
}
GROUPS = {
    "topics": "topics",
    "groups": "groups",
    "queue": "queue.commands",
    "configs": "configs",
    "log": "log.commands",
    "transactions": "transactions",
    "users": "access.users",
    "acls": "access.acls",
    "quotas": "access.quotas",
    "tokens": "access.tokens",
    "registry": "registry",
    "console": "console",
    "cluster": "cluster.commands",
    "tier": "tiering.commands",
    "snapshot": "tiering.snapshots",
    "audit": "audit",
    "pipeline": "pipeline.commands",
    "ingest": "ingest.commands",
    "mirror": "mirror.commands",
    "connect": "connect.commands",
    "zookeeper": "cluster.zookeeper",
}


def version(output: Output = OutputFormat.TABLE) -> None:
    """Show the versions of Barnabas and Python."""
    import platform

    from barnabas.common.version import __version__

    facts = {"version": __version__, "python": platform.python_version(), "system": platform.system()}
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        print(f"barnabas {facts['version']} (Python {facts['python']}, {facts['system']})")


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def top_level(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Barnabas: a Kafka that installs with pip."""


def make_app(command_name: str = "") -> typer.Typer:
    """Build all commands, or only the requested one: the others take 0.1 s to import and build."""
    app = typer.Typer(
        name="barnabas",
        cls=CommandGroup,
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # rich would double the time that --help takes
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(epilog=EPILOG, no_args_is_help=True)(top_level)
    names = [command_name] if command_name in COMMANDS or command_name in GROUPS else [*COMMANDS, *GROUPS]
    for name in names:
        if name in COMMANDS:
            app.command(name)(getattr(_module(COMMANDS[name]), name))
        else:
            app.add_typer(_module(GROUPS[name]).app, name=name)
    app.command("version")(version)
    return app


def _module(name: str) -> ModuleType:
    return import_module(f"barnabas.cli.{name}")


def main() -> None:
    is_completion = "_BARNABAS_COMPLETE" in os.environ
    command_name = sys.argv[1] if len(sys.argv) > 1 and not is_completion else ""
    make_app(command_name)(prog_name="barnabas")


if __name__ == "__main__":
    main()
