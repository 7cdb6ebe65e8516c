"""Small consecutive transactions of one producer, with librdkafka.

    python -m benchmarks.clients.transactions --bootstrap H:P --topic T --transactions 500

The first transactions are not measured: the producer has to find its coordinator and get an epoch.
"""

import argparse
import json
import time

from confluent_kafka import KafkaError, Message, Producer

RECORDS_PER_TRANSACTION = 5
WARMUP_TRANSACTIONS = 10
_VALUE = b"x" * 100
_TIMEOUT_SECONDS = 60


def measure(bootstrap: str, topic: str, transactions: int) -> dict[str, float]:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"bench-{topic}", "linger.ms": 0, "log_level": 3}
    )
    producer.init_transactions(_TIMEOUT_SECONDS)
    for _ in range(WARMUP_TRANSACTIONS):
        run_transaction(producer, topic)
    begin = time.perf_counter()
    for _ in range(transactions):
        run_transaction(producer, topic)
    return {"transactions": float(transactions), "seconds": time.perf_counter() - begin}


def run_transaction(producer: Producer, topic: str) -> None:
    """Run one transaction; the commit waits for every record and for the coordinator."""
    producer.begin_transaction()
    for _ in range(RECORDS_PER_TRANSACTION):
        producer.produce(topic, _VALUE, on_delivery=_fail_unless_delivered)
    producer.commit_transaction(_TIMEOUT_SECONDS)


def _fail_unless_delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"not delivered: {error}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--transactions", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(measure(options.bootstrap, options.topic, options.transactions)))


if __name__ == "__main__":
    main()
