"""The command group at the top: turns expected errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from barnabas.cli.command_config import add_to_commands

INTERRUPTED = 130  # what shells say for a program that Ctrl-C has ended


class FriendlyGroup(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        add_to_commands(self)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # `barnabas consume ... | head`: the reader has enough. Python would complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            code = _report(error)
            if code is None:
                raise
            raise typer.Exit(code) from error


def _report(error: Exception) -> int | None:
    """Print what a person can use and return the exit code; None for usage errors and bugs."""
    from barnabas.cli.failures import explain

    explained = explain(error)
    if explained is None:
        return None
    text, code = explained
    typer.echo(f"Error: {text}", err=True)
    return code
