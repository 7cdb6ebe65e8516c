"""A process that runs pipelines continuously in one Spark session until it is killed.

python -m tests.pipelines.library.run_forever BOOTSTRAP '["FOLDER", {"setting": "value"}]'...
"""

import json
import sys
import time
from pathlib import Path

from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.running.runner import Runner
from barnabas.pipelines.running.sessions import pipeline_session
from examples.demo.pipelines import SHORT_LIVED
from tests.support.spark.jars import iceberg_jars


def main() -> None:
    bootstrap, *runs = sys.argv[1:]
    settings = {"spark.sql.shuffle.partitions": "2", "spark.jars": ",".join(map(str, iceberg_jars()))}
    with pipeline_session("killed", settings, master="local[2]", java_options=SHORT_LIVED) as session:
        runners = []
        for folder, chosen in map(json.loads, runs):
            runner = Runner(read_pipeline(Path(folder), {BOOTSTRAP: bootstrap, **chosen}), session)
            runner.prepare()
            runner.start()
            runners.append(runner)
        while True:
            for runner in runners:
                runner.look()
            time.sleep(0.2)


if __name__ == "__main__":
    main()
