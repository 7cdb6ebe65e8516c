"""One broker for all tests of the command line, and a way to call it as a user does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.cli.main import make_app
from barnabas.testing import EmbeddedBroker

_numbers = itertools.count()


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`cli("topics", "list")` runs the command in this process, against the broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Ended:
        result = CliRunner(env={"BARNABAS_BOOTSTRAP": self.bootstrap}).invoke(
            make_app(), arguments, input=stdin
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> Ended:
        ended = self(*arguments, stdin=stdin)
        assert ended.code == 0, ended
        return ended


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def cli(broker: EmbeddedBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"cli-{next(_numbers)}"


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic(f"cli-{next(_numbers)}", partitions=2)
