"""First query of a new Spark process: time to its result, without the start of the session.

python -m benchmarks.clients.spark_cold --source barnabas --bootstrap HOST:PORT --topic T
"""

import argparse
import json
import time

from benchmarks.subjects import spark


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    options = parser.parse_args()
    spark.session()
    began = time.perf_counter()
    spark.table(options.source, options.bootstrap, options.topic).limit(10).collect()
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
