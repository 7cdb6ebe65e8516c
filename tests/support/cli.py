"""The command line, called in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from barnabas.cli.main import make_app


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
