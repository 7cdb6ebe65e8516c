"""A cluster changes from PLAINTEXT to SASL broker by broker, without errors for clients."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from confluent_kafka import Producer

from barnabas.testing import EmbeddedCluster
from barnabas.testing.embedded import EmbeddedBroker
from tests.support.programs import free_port
from tests.support.sasl import PLAIN_USERS, login
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0
BROKER_LOGIN = 'username="broker" password="of all brokers" user_broker="of all brokers"'
SECURE = {
    "listener.security.protocol.map": "CLEAR:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": f"{PLAIN_USERS[:-1]} {BROKER_LOGIN};",
    "zookeeper.session.timeout.ms": "6000",
}


class Load:
    """Writes continuously until it is stopped; failures are in `errors`."""

    def __init__(self, bootstrap: str, **settings: str) -> None:
        self.errors: list[object] = []
        self.written = 0
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **settings})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce("rolled", b"x", on_delivery=self._told)
            self._producer.poll(0.01)

    def _told(self, error: object, _: object) -> None:
        self.errors += [error] if error is not None else []
        self.written += error is None

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE) == 0


def test_brokers_change_to_a_secure_listener_one_after_the_other() -> None:
    require_zookeeper()
    cluster = EmbeddedCluster(brokers=3, settings={**SECURE, "min.insync.replicas": "2"})
    ports = {number: (free_port(), free_port()) for number in cluster.brokers}

    def listen(number: int, names: tuple[str, ...], **others: str) -> None:
        by_name = dict(zip(("CLEAR", "SECURE"), ports[number], strict=True))
        listeners = ",".join(f"{name}://127.0.0.1:{by_name[name]}" for name in names)
        settings = {"listeners": listeners, "barnabas.also.inter.broker.listeners": "", **others}
        cluster.brokers[number].settings.update(settings)

    def roll(names: tuple[str, ...], **others: str) -> None:
        for number, broker in cluster.brokers.items():
            listen(number, names, **others)
            broker.restart()
            until(lambda: all_in_sync(cluster.running))

    clear = {"inter.broker.listener.name": "CLEAR"}
    for number in cluster.brokers:
        listen(number, ("CLEAR",), **clear)
    with cluster:
        cluster.create_topic("rolled", partitions=3)
        load = Load(",".join(f"127.0.0.1:{port}" for port, _ in ports.values()))
        roll(("CLEAR", "SECURE"), **clear, **{"barnabas.also.inter.broker.listeners": "SECURE"})
        secure = {"inter.broker.listener.name": "SECURE"}
        roll(("CLEAR", "SECURE"), **secure, **{"barnabas.also.inter.broker.listeners": "CLEAR"})
        load.stop()
        secured = Load(",".join(f"127.0.0.1:{port}" for _, port in ports.values()), **login("PLAIN"))
        roll(("SECURE",), **secure)
        secured.stop()

    assert load.errors == secured.errors == []
    assert load.written > 0
    assert secured.written > 0


def all_in_sync(brokers: Sequence[EmbeddedBroker]) -> bool:
    return all(len(state.isr) == 3 for broker in brokers for _, _, state in broker.broker.image.partitions())
