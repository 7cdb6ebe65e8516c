"""EmbeddedBroker with several processes, as tests of other projects use it."""

import confluent_kafka
import pytest

from barnabas.config.setting import ConfigError
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until


def produced(broker: EmbeddedBroker, topic: str, count: int) -> list[confluent_kafka.Message]:
    """One record to each partition."""
    done: list[confluent_kafka.Message] = []
    producer = confluent_kafka.Producer({**broker.clients.confluent, "retry.backoff.ms": 20})
    for partition in range(count):
        producer.produce(topic, b"value", partition=partition, on_delivery=lambda _, each: done.append(each))
    assert producer.flush(30) == 0
    return [each for each in done if each.error() is None]


def test_two_processes_have_the_same_face_as_one() -> None:
    users = {"alice": "secret"}
    with EmbeddedBroker(processes=2, security="SASL_PLAINTEXT", users=users, registry=True) as broker:
        first = broker.bootstrap_servers
        assert len(first.split(",")) == 2
        topic = broker.create_topic(partitions=4)
        assert len(produced(broker, topic, 4)) == 4
        assert broker.registry_url.startswith("http://")
        broker.kill(process=1)
        assert len(produced(broker, topic, 4)) == 4
        broker.restart()
        assert broker.bootstrap_servers == first
        assert len(produced(broker, topic, 4)) == 4
        with pytest.raises(RuntimeError, match="processes=1"):
            broker.inject("Produce", "NOT_LEADER_OR_FOLLOWER")
        with pytest.raises(ValueError, match="no process 7"):
            broker.kill(process=7)
        broker.kill()
        assert not broker.running
    until(lambda: not broker.running)


def test_a_node_that_cannot_start_says_why() -> None:
    with pytest.raises((RuntimeError, ConfigError), match=r"node\.id=1000 allows one process only"):
        EmbeddedBroker({"node.id": "1000"}, processes=2).start()


def test_one_process_has_no_second_one() -> None:
    with EmbeddedBroker() as broker, pytest.raises(RuntimeError, match="processes=2"):
        broker.kill(process=1)
