"""The jobs of `queues.jobs` with RabbitMQ and pika: a durable queue, publisher confirms, manual acks.

Uses pika's asynchronous connection, its fastest: the blocking one confirms one message at a time. AMQP has no response
to an acknowledgement; a job is done when pika has accepted its ack.
"""

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pika

from benchmarks.clients.queues.job_queue import PREFETCH, Jobs, Publishing, Queue, Times, opened

_PERSISTENT = pika.BasicProperties(delivery_mode=2)
_NAP_SECONDS = 0.0005
_REPORT_SECONDS = 0.05


def create(queue: Queue) -> None:
    connection = pika.BlockingConnection(_address(queue))
    connection.channel().queue_declare(queue.name, durable=True)
    connection.close()


def publish(queue: Queue, jobs: Jobs) -> None:
    def begin(connection: Any, channel: Any) -> None:
        publishing = Publishing(jobs)
        told = 0

        def send(job: bytes) -> None:
            channel.basic_publish("", queue.name, job, _PERSISTENT)

        def confirmed(frame: Any) -> None:
            nonlocal told
            if not isinstance(frame.method, pika.spec.Basic.Ack):
                raise RuntimeError("a job was not taken")
            publishing.confirm(frame.method.delivery_tag - told if frame.method.multiple else 1)
            told = max(told, frame.method.delivery_tag)
            publishing.send_due(send)

        def look() -> None:
            publishing.send_due(send)
            if publishing.is_over:
                connection.close()
            else:
                connection.ioloop.call_later(_NAP_SECONDS, look)

        channel.confirm_delivery(confirmed, callback=lambda _: look())

    _run(queue, begin)


def work(queue: Queue, pipe: Connection) -> None:
    def begin(connection: Any, channel: Any) -> None:
        done: list[Times] = []

        def take(_channel: Any, method: Any, _properties: Any, job: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            done.append(Times(*opened(job), time.monotonic_ns()))

        def report() -> None:
            if done:
                pipe.send(done)
                done.clear()
            connection.ioloop.call_later(_REPORT_SECONDS, report)

        def consume(_: Any) -> None:
            channel.basic_consume(queue.name, take, callback=lambda _: pipe.send("ready"))
            report()

        channel.basic_qos(prefetch_count=PREFETCH, callback=consume)

    _run(queue, begin)


def _run(queue: Queue, begin: Callable[[Any, Any], None]) -> None:
    """Open a channel, pass it to `begin`, and run until the connection is closed."""
    connection = pika.SelectConnection(
        _address(queue),
        on_open_callback=lambda opened: opened.channel(
            on_open_callback=lambda channel: begin(opened, channel)
        ),
        on_close_callback=lambda closed, _reason: closed.ioloop.stop(),
    )
    connection.ioloop.start()


def _address(queue: Queue) -> Any:
    return pika.ConnectionParameters("127.0.0.1", queue.port, heartbeat=0)
