"""Reads a topic of JSON events as typed columns: with `barnabas.table`, or with a poll loop into a DataFrame.

python -m benchmarks.clients.table_reader --how table --bootstrap HOST:PORT --topic T --records N

Prints records per second, and per CPU second of this process, after one uncounted read (compilers, caches).
"""

import argparse
import json
import time
from collections.abc import Callable

SCHEMA = "user STRING, page STRING, ms BIGINT"
COLUMNS = ["user", "page", "ms"]

Read = Callable[[argparse.Namespace], int]


def by_table(options: argparse.Namespace) -> int:
    import barnabas

    table = barnabas.table(options.topic, bootstrap=options.bootstrap, schema=SCHEMA)
    return int(table.to_arrow(COLUMNS).num_rows)


def by_poll(options: argparse.Namespace) -> int:
    """Typical hand-written code: poll, json.loads, a DataFrame at the end."""
    import pandas
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": options.bootstrap, "group.id": "poll", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(options.topic, index, 0) for index in range(options.partitions)])
    rows: list[dict[str, object]] = []
    while len(rows) < options.records:
        message = consumer.poll(1.0)
        if message is not None:
            rows.append(json.loads(message.value() or b"null"))
    consumer.close()
    return len(pandas.DataFrame(rows, columns=COLUMNS))


HOW: dict[str, Read] = {"table": by_table, "poll": by_poll}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=HOW, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    options = parser.parse_args()
    read = HOW[options.how]
    if options.how == "table":
        read(options)
    began, cpu = time.perf_counter(), time.process_time()
    rows = read(options)
    assert rows == options.records, rows
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"rate": rows / seconds, "per_core": rows / cpu_seconds}))


if __name__ == "__main__":
    main()
