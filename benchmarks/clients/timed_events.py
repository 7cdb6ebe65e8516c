"""Sends records at a steady rate, each with its send time (nanoseconds of the wall clock) as the value.

python -m benchmarks.clients.timed_events --bootstrap HOST:PORT --topic T --rate 1000 --seconds 60
"""

import argparse
import json
import time

from confluent_kafka import Producer

from benchmarks.clients.pacing import at_rate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    producer = Producer({"bootstrap.servers": options.bootstrap, "linger.ms": 0})

    def send() -> None:
        producer.produce(options.topic, str(time.time_ns()))

    at_rate(options.rate, options.seconds, send, lambda: producer.poll(0))
    print(json.dumps({"unsent": producer.flush(30)}))


if __name__ == "__main__":
    main()
