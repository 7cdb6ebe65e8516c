"""Setup step: runs the demo for a few seconds without output, so that Java can archive the classes it loads.

python -m examples.demo.warming

If that fails (a Java without class data sharing), the demo only starts more slowly.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.console import Console

from barnabas.spark.java import prepare_java
from barnabas.spark.worker_process import archive_path, prepare_workers, recording_options, shares_classes
from examples.demo.error_log import ErrorLog
from examples.demo.pipelines import SHORT_LIVED
from examples.demo.show import Show

SECONDS = 3.0


def main() -> None:
    prepare_java()
    prepare_workers()
    archive = archive_path()
    if archive is None or archive.exists() or not shares_classes():
        return
    print("Getting Spark ready, once: this takes about a minute.", flush=True)
    fresh = archive.with_name(
        f"{archive.name}.{os.getpid()}"
    )  # renamed when complete, since an existing archive is used
    try:
        with ErrorLog() as log:
            _run(fresh)
            log.forget()
        if fresh.exists():
            fresh.replace(archive)
    except Exception as error:  # the demo reports the cause when it runs
        print(f"That did not work ({error}); {log.path} has the details.")
    finally:
        fresh.unlink(missing_ok=True)


def _run(archive: Path) -> None:
    with open(os.devnull, "w") as nowhere:
        options = [*SHORT_LIVED, *recording_options(archive)]
        Show(Console(file=nowhere), SECONDS, time.monotonic(), options).run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
