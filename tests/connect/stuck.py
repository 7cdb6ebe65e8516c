"""`barnabas connect run` with JDBC sinks that block after a step, to be killed there.

    python -m tests.connect.stuck FOLDER ARGUMENTS...

A connector's name is the step after which it stops, in its second batch. It leaves a file of its name in FOLDER.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from barnabas.cli.main import make_app
from barnabas.connect.jdbc.writer import JdbcWriter


def stop_at_steps(folder: Path) -> None:
    seen: Counter[str] = Counter()

    def passed(writer: JdbcWriter, step: str) -> None:
        name = writer._connector
        seen[name] += step == name
        if step == name and seen[name] == 2:
            (folder / name).touch()
            while True:
                time.sleep(60)

    JdbcWriter.passed = passed  # type: ignore[assignment]


if __name__ == "__main__":
    stop_at_steps(Path(sys.argv[1]))
    make_app()(["connect", "run", *sys.argv[2:]])
