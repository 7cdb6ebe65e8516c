import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.config.setting import ConfigError
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port

FEW_SECONDS = 60.0


def topics_of(broker: EmbeddedBroker) -> set[str]:
    async def main() -> set[str]:
        async with Client(broker.bootstrap_servers) as client:
            return set(await client.all_topics())

    return asyncio.run(main())


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_real_client_produces_and_consumes() -> None:
    with EmbeddedBroker() as broker:
        topic = broker.create_topic("orders", partitions=2)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(topic, b"an order", partition=1)
        assert producer.flush(FEW_SECONDS) == 0
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([confluent_kafka.TopicPartition(topic, 1, 0)])
        message = consumer.poll(FEW_SECONDS)
        consumer.close()
        assert message is not None
        assert message.value() == b"an order"


def test_several_brokers_run_on_one_machine() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        topic = one.create_topic()
        assert topics_of(one) == {topic}
        assert topics_of(two) == set()


def test_nothing_is_left_behind() -> None:
    threads = set(threading.enumerate())
    with EmbeddedBroker() as broker:
        broker.create_topic()
        folder, port = broker.data_dir, broker.port
        assert folder.is_dir()
    assert not folder.exists()
    assert not listens(port)
    assert set(threading.enumerate()) == threads


def test_a_given_folder_is_kept(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        topic = broker.create_topic()
    assert (tmp_path / f"{topic}-0").is_dir()
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert topics_of(broker) == {topic}


def test_a_restart_keeps_data_and_port() -> None:
    with EmbeddedBroker() as broker:
        topic, servers = broker.create_topic(), broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == servers
        assert topics_of(broker) == {topic}


def test_start_errors_are_raised_in_the_caller(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ConfigError, match=r"log\.retension\.ms"):
        EmbeddedBroker({"log.retension.ms": "1"}).start()
    with EmbeddedBroker(data_dir=tmp_path), pytest.raises(Exception, match="another broker is using"):
        EmbeddedBroker(data_dir=tmp_path).start()
    assert set(threading.enumerate()) == threads


def test_a_port_that_is_taken_is_named() -> None:
    with EmbeddedBroker() as broker, pytest.raises(OSError, match=str(broker.port)):
        EmbeddedBroker(port=broker.port).start()


def test_settings_of_the_test_win() -> None:
    with EmbeddedBroker({"num.partitions": "3"}, port=free_port()) as broker:
        topic = broker.create_topic(partitions=-1)

        async def main() -> int:
            async with Client(broker.bootstrap_servers) as client:
                return len((await client.topics([topic]))[topic].partitions)

        assert asyncio.run(main()) == 3


def test_it_may_be_used_from_inside_an_event_loop() -> None:
    async def main() -> None:
        with EmbeddedBroker() as broker:
            topic = broker.create_topic()
            async with Client(broker.bootstrap_servers) as client:
                assert topic in await client.all_topics()

    asyncio.run(main())


def test_error_is_injected_the_requested_number_of_times() -> None:
    with EmbeddedBroker() as broker:
        topic = broker.create_topic()
        broker.inject("CREATE_TOPICS", "POLICY_VIOLATION")
        with pytest.raises(Exception, match="POLICY_VIOLATION"):
            broker.create_topic("refused")
        broker.create_topic("accepted")
        assert topics_of(broker) == {topic, "accepted"}


def test_use_before_the_start_has_a_remedy() -> None:
    with pytest.raises(RuntimeError, match="`with` block"):
        EmbeddedBroker().create_topic()


def test_stopping_twice_is_harmless() -> None:
    broker = EmbeddedBroker().start()
    broker.stop()
    broker.stop()
    assert not broker.running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_keeps_neither_the_port_nor_the_lock_nor_stops_the_broker() -> None:
    context = multiprocessing.get_context("fork")
    with EmbeddedBroker() as broker:
        topic = broker.create_topic()
        started, go = context.Event(), context.Event()

        def live_on() -> None:
            broker.stop()  # not the child's broker: nothing happens
            started.set()
            go.wait(60)

        child = context.Process(target=live_on)
        child.start()
        try:
            assert started.wait(FEW_SECONDS)
            assert topics_of(broker) == {topic}
            broker.restart()  # needs the port and the lock that the child has inherited
            assert topics_of(broker) == {topic}
        finally:
            go.set()
            child.join(FEW_SECONDS)
        assert child.exitcode == 0
        assert topics_of(broker) == {topic}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_a_client_like_any_other() -> None:
    context = multiprocessing.get_context("fork")
    with EmbeddedBroker() as broker:

        def create() -> None:
            async def main() -> None:
                async with Client(broker.bootstrap_servers) as client:
                    await admin.create_topic(client, "from-the-child")

            asyncio.run(main())

        child = context.Process(target=create)
        child.start()
        child.join(FEW_SECONDS)
        assert child.exitcode == 0
        assert topics_of(broker) == {"from-the-child"}


def test_a_process_ends_although_it_forgot_to_stop_its_broker() -> None:
    code = "from barnabas.testing import EmbeddedBroker; EmbeddedBroker().start()"
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=30, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
