"""Properties of every command."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from barnabas.cli.main import make_app
from tests.support.cli import Cli

# These stream, or run until they are stopped; their messages are for display.
WITHOUT_OUTPUT_OPTION = {
    "registry run",
    "console",
    "serve",
    "dev",
    "cluster start",
    "zookeeper start",
    "zookeeper install",
    "pipeline run",
    "mirror run",
    "connect run",
    "connect worker",
}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield (*path, name), child


ALL = list(commands(typer.main.get_command(make_app())))


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_help_an_example_and_json(cli: Cli, path: tuple[str, ...], command: Any) -> None:
    shown = cli.ok(*path, "--help").out
    if path != ("version",):
        assert "Example" in shown
    if " ".join(path) not in WITHOUT_OUTPUT_OPTION:
        assert "--output" in shown
    assert all(option.help for option in command.params if option.param_type_name == "option")


def test_every_command_that_connects_has_a_bootstrap_option() -> None:
    local = {("serve",), ("dev",), ("version",), ("log", "dump"), ("log", "verify"), ("log", "repair")}
    local |= {("cluster", "start"), ("cluster", "adopt"), ("cluster", "secure"), ("cluster", "restore")}
    local |= {
        ("zookeeper", "start"),
        ("zookeeper", "install"),
        ("pipeline", "init"),
        ("pipeline", "jars"),
        ("pipeline", "status"),
    }
    local |= {("console", "password"), ("console", "token"), ("pipeline", "pack")}
    local |= {("connect", word) for word in ("pause", "resume", "restart", "offsets")}
    for path, command in ALL:
        names = {name for option in command.params for name in option.opts}
        assert ("--bootstrap-server" in names) == (path not in local), path


def test_no_command_at_all_shows_the_help(cli: Cli) -> None:
    assert "Usage: " in cli().out + cli().err
