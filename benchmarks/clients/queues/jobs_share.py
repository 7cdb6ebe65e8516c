"""The jobs of `queues.jobs` with a share group and confluent-kafka: acks=all, explicit acknowledgements."""

import time
from multiprocessing.connection import Connection

from confluent_kafka import KafkaError, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks.clients.queues.job_queue import PREFETCH, Jobs, Publishing, Queue, Times, opened

_POLL_SECONDS = 0.5
_TIMEOUT_SECONDS = 60.0
_AT_ONCE = {"linger.ms": 0}  # for latency; otherwise the client's default (5)


def create(queue: Queue) -> None:
    admin = AdminClient({"bootstrap.servers": _address(queue)})
    for created in admin.create_topics([NewTopic(queue.name, 1, 1)]).values():
        created.result(_TIMEOUT_SECONDS)
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ConfigResource.Type.GROUP, queue.name, incremental_configs=[earliest])
    for altered in admin.incremental_alter_configs([group]).values():
        altered.result(_TIMEOUT_SECONDS)


def publish(queue: Queue, jobs: Jobs) -> None:
    linger = _AT_ONCE if jobs.rate else {}
    producer = Producer({"bootstrap.servers": _address(queue), "acks": "all", **linger})
    publishing = Publishing(jobs)

    def confirmed(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a job was not taken: {error}")
        publishing.confirm()

    while not publishing.is_over:
        publishing.send_due(lambda job: producer.produce(queue.name, job, on_delivery=confirmed))
        producer.poll(0.0005)


def work(queue: Queue, pipe: Connection) -> None:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": _address(queue),
            "group.id": queue.name,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": PREFETCH,
        }
    )
    consumer.subscribe([queue.name])
    consumer.poll(0.1)
    pipe.send("ready")
    while True:
        jobs = []
        for message in consumer.poll(_POLL_SECONDS):
            jobs.append(opened(message.value() or b""))
            consumer.acknowledge(message)
        if jobs:
            _commit(consumer)
            now = time.monotonic_ns()
            pipe.send([Times(number, published, now) for number, published in jobs])


def _commit(consumer: ShareConsumer) -> None:
    """Commit; return when the broker has stored the acknowledgements."""
    for partition, error in consumer.commit_sync(_TIMEOUT_SECONDS).items():
        if error is not None:
            raise RuntimeError(f"acknowledgements in {partition} did not count: {error}")


def _address(queue: Queue) -> str:
    return f"127.0.0.1:{queue.port}"
