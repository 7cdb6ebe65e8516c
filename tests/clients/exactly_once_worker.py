"""Consume, transform, produce, exactly once: a process that a test kills and starts again.

It starts over after every error, as such programs do; it ends when the input is through (`count` offsets committed).
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SHORT = 3.0


def work(bootstrap: str, source: str, output: str, count: int) -> bool:
    """Process until everything is committed; False when it has to be started over."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"worker-{source}", "log_level": 0}
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"workers-{source}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    place = TopicPartition(source, 0)
    try:
        producer.init_transactions(SHORT)
        # The worker owns its partition: no waiting for the session of a member that was killed.
        done = max(consumer.committed([place], SHORT)[0].offset, 0)
        consumer.assign([TopicPartition(source, 0, done)])
        while done < count:
            messages = [one for one in consumer.consume(7, 0.5) if one.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(output, message.value(), partition=0)
            done = (messages[-1].offset() or 0) + 1
            position = TopicPartition(source, 0, done)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), SHORT)
            producer.commit_transaction(SHORT)
        return True
    except (KafkaException, BufferError):
        return False
    finally:
        consumer.close()


def main() -> None:
    bootstrap, source, output, count = sys.argv[1:5]
    while not work(bootstrap, source, output, int(count)):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
