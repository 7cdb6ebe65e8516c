"""A process that runs pipelines continuously in one Spark session until it is killed.

python -m tests.pipelines.library.run_forever BOOTSTRAP FOLDER...
"""

import sys
import time
from pathlib import Path

from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.running.runner import Runner
from barnabas.pipelines.running.sessions import pipeline_session


def main() -> None:
    bootstrap, *folders = sys.argv[1:]
    with pipeline_session("killed", {"spark.sql.shuffle.partitions": "2"}, master="local[2]") as session:
        runners = []
        for folder in folders:
            runner = Runner(read_pipeline(Path(folder), {BOOTSTRAP: bootstrap}), session)
            runner.prepare()
            runner.start()
            runners.append(runner)
        while True:
            for runner in runners:
                runner.look()
            time.sleep(0.2)


if __name__ == "__main__":
    main()
