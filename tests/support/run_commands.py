"""Runs command lines in this process, against a broker in it, and prints how each ended, as JSON:

    python -m tests.support.run_commands < SPECIFICATION

`hidden` packages cannot be imported, as after `pip install barnabas` without extras. Commands of `prepare`, (words,
standard input), have to succeed. Each of `commands`, (words, seconds), is interrupted after so many seconds, as with
Ctrl-C.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

INTERRUPTED = 130


class HiddenPackages(importlib.abc.MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run(app: Any, words: list[str], seconds: float, stdin: str) -> tuple[int, str]:
    """Exit code and output; the `repr` of an unexplained exception."""
    from typer.testing import CliRunner

    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        ended = CliRunner().invoke(app, words, input=stdin)
    except KeyboardInterrupt:
        return INTERRUPTED, ""
    finally:
        timer.cancel()
        timer.join()
    is_unexpected = ended.exception is not None and not isinstance(ended.exception, SystemExit)
    return ended.exit_code, repr(ended.exception) if is_unexpected else ended.stderr


def main(config: dict[str, Any]) -> None:
    sys.meta_path.insert(0, HiddenPackages(config.get("hidden", ())))
    from barnabas.cli.main import make_app
    from barnabas.testing import EmbeddedBroker

    app = make_app()
    with EmbeddedBroker(config.get("settings", {})) as broker:
        os.environ["BARNABAS_BOOTSTRAP"] = broker.bootstrap_servers
        for words, stdin in config.get("prepare", ()):
            code, text = run(app, words, 60, stdin)
            assert code == 0, (words, text)
        for words, seconds in config["commands"]:
            sys.stdout.write(json.dumps([words, *run(app, words, seconds, "y\n")]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(json.load(sys.stdin))
