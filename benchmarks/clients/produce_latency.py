"""Produce latency at a fixed rate, with librdkafka: from `produce()` to the broker's response.

    python -m benchmarks.clients.produce_latency --bootstrap H:P --topic T --rate 5000 --seconds 6

librdkafka measures the times (`Message.latency`), so they exclude Python's scheduling.
"""

import argparse
import json

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.clients.pacing import at_rate
from benchmarks.clients.percentiles import summary

_WARMUP_RECORDS = 2500  # excludes connecting and fetching metadata


def measure(
    bootstrap: str, topic: str, rate: int, seconds: float, acks: str = "1", warm_up: int = _WARMUP_RECORDS
) -> dict[str, float]:
    latencies: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        latencies.append(message.latency() or 0.0)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    value = b"x" * 100
    at_rate(
        rate,
        seconds + warm_up / rate,
        call=lambda: producer.produce(topic, value, on_delivery=delivered),
        between=lambda: producer.poll(0),
    )
    producer.flush(30)
    return summary(latencies[warm_up:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--acks", default="1")
    parser.add_argument("--warm-up", type=int, default=_WARMUP_RECORDS, help="records that do not count")
    options = parser.parse_args()
    figures = measure(
        options.bootstrap, options.topic, options.rate, options.seconds, options.acks, options.warm_up
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
