"""A worker process that crashes, delays, rejects or releases, by the number of the job.

It says `done N` when the broker has taken its acceptance, `unsure N` when the broker refused some answer of the same
partition, or when its lock had run out: then only the broker knows. (Late answers for jobs that others have
finished are not always refused: what lies below the start of the window is finished, and nobody asks by whom.)
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import AcknowledgeType, Message, ShareConsumer, TopicPartition

CRASHES_AT, DAWDLES_AT = 10_000, 20_000
REJECTED_OF_100, GIVEN_BACK_OF_100 = 1, 2
LOCK_SECONDS = 2.0


def job(message: Message) -> int:
    return int(message.value() or b"")


def answer(number: int) -> AcknowledgeType:
    if number % 100 == REJECTED_OF_100:
        return AcknowledgeType.REJECT
    if number % 100 == GIVEN_BACK_OF_100:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def is_dead_letter(number: int) -> bool:
    return answer(number) is not AcknowledgeType.ACCEPT


def misbehave(numbers: Sequence[int], mishaps: str) -> None:
    """Once per job: a file marks it as done for the next worker."""
    for number in numbers:
        crashes, dawdles = number % CRASHES_AT == 5_000, number % DAWDLES_AT == 7_777
        if (crashes or dawdles) and first_time(f"{mishaps}/{number}"):
            if crashes:
                os._exit(1)
            time.sleep(LOCK_SECONDS * 1.5)


def first_time(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main(bootstrap_servers: str, group: str, topic: str, mishaps: str) -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while True:
        requested_at = time.monotonic()
        messages = [message for message in consumer.poll(0.5) if message.error() is None]
        misbehave([job(message) for message in messages], mishaps)
        for message in messages:
            consumer.acknowledge(message, answer(job(message)))
        if messages:
            outcomes = consumer.commit_sync(30.0) or {}
            report(messages, outcomes, late=time.monotonic() - requested_at >= LOCK_SECONDS)


def report(
    messages: Sequence[Message], outcomes: Mapping[TopicPartition, Exception | None], *, late: bool
) -> None:
    refused = {(place.topic, place.partition) for place, error in outcomes.items() if error is not None}
    lines = [
        f"{'unsure' if late or (message.topic(), message.partition()) in refused else 'done'} {job(message)}\n"
        for message in messages
        if not is_dead_letter(job(message))
    ]
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
