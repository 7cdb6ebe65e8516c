"""Spark's own runner (the program behind `spark-pipelines run`) over several folders, in one Python and one JVM.

python -m tests.cli.pipeline.run_with_spark FOLDER...
"""

import os
import sys

from pyspark.pipelines import cli

from barnabas.spark.java import prepare_java


def main() -> None:
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    for folder in sys.argv[1:]:
        os.environ["SPARK_REMOTE"] = "local[2]"  # a separate Connect server, as the program starts one
        os.chdir(folder)
        sys.argv = ["spark-pipelines", "run"]
        cli.main()


if __name__ == "__main__":
    main()
