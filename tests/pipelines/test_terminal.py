"""Tables are updated in place only on capable terminals."""

import io

import pytest
from rich.console import Console

from barnabas.pipelines.terminal import is_watched


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "file", "watched"),
    [
        ({"TERM": "xterm"}, Terminal(), True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Terminal(), True),
        ({"TERM": "xterm", "CI": "false"}, Terminal(), True),
        ({"TERM": "xterm", "CI": "true"}, Terminal(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"TERM": "xterm"}, io.StringIO(), False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, io.StringIO(), False),
    ],
)
def test_readers(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], file: io.StringIO, watched: bool
) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_watched(Console(file=file)) is watched
