"""A share group worker as a separate process that can be killed: prints `got` and `done` for each record."""

from __future__ import annotations

import sys

from confluent_kafka import ShareConsumer


def say(word: str, values: list[str]) -> None:
    sys.stdout.writelines(f"{word} {value}\n" for value in values)
    sys.stdout.flush()


def main(bootstrap_servers: str, group: str, topic: str) -> None:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0, "max.poll.records": 20}
    )
    consumer.subscribe([topic])
    while True:
        values = [(message.value() or b"").decode() for message in consumer.poll(0.5)]
        say("got", values)
        outcomes = consumer.commit_sync(timeout=60.0) if values else {}
        if all(error is None for error in (outcomes or {}).values()):
            say("done", values)


if __name__ == "__main__":
    main(*sys.argv[1:])
