"""What is done to a cluster. Each fault leaves it whole again: everybody runs, and every link is healed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos.cluster import BrokerProcess, ChaosCluster, until
from tests.chaos.loads import PARTITIONS, Load
from tests.chaos.power import forget_unsynced

SESSION_SECONDS = 6.0
KILLED_GAP = 10.0  # the promise for kill -9 with default timeouts
CLEAN_GAP = 1.0  # and for a clean restart


class Scene(NamedTuple):
    cluster: ChaosCluster
    topic: str
    load: Load

    def victim(self, role: str) -> BrokerProcess:
        """Who plays a role now."""
        if role == "controller":
            return self.cluster.brokers[self.cluster.controller()]
        if role == "coordinator":
            return self.cluster.brokers[self.cluster.leader("__transaction_state")]
        leader = self.cluster.leader(self.topic)
        followers = [number for number in self.cluster.replicas(self.topic) if number != leader]
        return self.cluster.brokers[leader if role == "leader" else followers[0]]

    def go_on(self, more: int = 100) -> None:
        """Wait until every partition has acknowledged some more."""
        wanted = {number: len(self.load.acknowledged[number]) + more for number in range(PARTITIONS)}

        def acknowledged() -> bool:
            return all(len(self.load.acknowledged[number]) >= count for number, count in wanted.items())

        until(lambda: acknowledged() or self.load.failure, "every partition acknowledges records again", 120)

    def whole(self) -> None:
        until(lambda: self.cluster.in_sync(self.topic), "all replicas are in sync", 120)


def kill(scene: Scene, role: str) -> None:
    broker = scene.victim(role)
    broker.kill()
    scene.go_on()
    broker.start()


def pause(scene: Scene, role: str) -> None:
    """A machine that stands still for longer than its session lives, and then goes on as if nothing had been."""
    broker = scene.victim(role)
    broker.signal(signal.SIGSTOP)
    time.sleep(1.5 * SESSION_SECONDS)
    broker.signal(signal.SIGCONT)
    scene.go_on()


def lose_power(scene: Scene, role: str) -> None:
    """The machine of a broker loses what it had not synced, and wakes up with another boot id."""
    broker = scene.victim(role)
    broker.kill()
    forget_unsynced(broker.folder)
    scene.go_on()
    broker.start()


def restart(scene: Scene, role: str) -> None:
    broker = scene.victim(role)
    broker.stop()
    scene.go_on()
    broker.start()


def cut_from_zookeeper(scene: Scene, role: str) -> None:
    broker = scene.victim(role)
    broker.to_zookeeper.cut(broker.node_id)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.go_on()
    scene.cluster.heal()


def freeze_to_zookeeper(scene: Scene, role: str) -> None:
    """Half-open: the connection stands, and nothing comes through."""
    broker = scene.victim(role)
    broker.to_zookeeper.freeze(broker.node_id)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.go_on()
    scene.cluster.heal()


def cut_from_peers(scene: Scene, role: str) -> None:
    broker = scene.victim(role)
    scene.cluster.cut_from_peers(broker.node_id)
    time.sleep(SESSION_SECONDS)
    scene.cluster.heal()
    scene.go_on()


def restart_zookeeper(scene: Scene, role: str) -> None:
    scene.cluster.zookeeper.stop()
    time.sleep(1)
    scene.cluster.zookeeper.start()
    scene.go_on()


def two_in_a_row(scene: Scene, role: str) -> None:
    """The second dies as soon as the first is back in the ISR."""
    for _ in range(2):
        kill(scene, role)
        scene.whole()


def all_in_turn(scene: Scene, role: str) -> None:
    for broker in scene.cluster.brokers.values():
        broker.stop()
        broker.start()
        scene.whole()


class Fault(NamedTuple):
    name: str
    action: Callable[[Scene, str], None]
    role: str
    allowed_gap: float | None = None
    """Seconds without an acknowledgement on some partition; None where nothing is promised."""


_ROLES = ("leader", "follower", "controller", "coordinator")
FAULTS: tuple[Fault, ...] = (
    *(Fault(f"kill the {role}", kill, role, KILLED_GAP) for role in _ROLES),
    *(Fault(f"pause the {role}", pause, role) for role in _ROLES),
    *(Fault(f"power off for the {role}", lose_power, role, KILLED_GAP) for role in _ROLES),
    *(Fault(f"restart the {role}", restart, role, CLEAN_GAP) for role in _ROLES),
    Fault("restart all in turn", all_in_turn, "", CLEAN_GAP),
    Fault("kill two leaders in a row", two_in_a_row, "leader", KILLED_GAP),
    Fault("cut the leader from ZooKeeper", cut_from_zookeeper, "leader", KILLED_GAP),
    Fault("freeze the leader's link to ZooKeeper", freeze_to_zookeeper, "leader", KILLED_GAP),
    Fault("cut the controller from ZooKeeper", cut_from_zookeeper, "controller", KILLED_GAP),
    Fault("cut the leader from its peers", cut_from_peers, "leader"),
    Fault("cut a follower from its peers", cut_from_peers, "follower"),
    Fault("restart ZooKeeper", restart_zookeeper, ""),
)
