"""Faults of a cluster. Each restores the cluster at its end: all processes run, all links are healed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from barnabas.common.types import TopicPartition
from tests.chaos.cluster import WITH_SMALL_DISK, BrokerProcess, ChaosCluster
from tests.chaos.links import Way
from tests.chaos.loads import PARTITIONS, Load
from tests.chaos.moves import hold_back, let_go, move
from tests.chaos.power import forget_unsynced
from tests.chaos.store import ChaosStore
from tests.support.waiting import until
from tests.support.zookeeper import Ensemble

SESSION_SECONDS = 6.0
KILLED_GAP = 10.0  # the promise for kill -9 with default timeouts
CLEAN_GAP = 1.0  # and for a clean restart
SLOW_SECONDS = 0.5  # that a message takes on a link that is slow, one way
NO_ROOM = "free some space"
IS_SLOW = "background threads write"


class Scene(NamedTuple):
    cluster: ChaosCluster
    topic: str
    load: Load

    def victim(self, role: str) -> BrokerProcess:
        """The current holder of a role."""
        if role == "controller":
            return self.cluster.brokers[self.cluster.controller()]
        if role == "coordinator":
            return self.cluster.brokers[self.cluster.leader("__transaction_state")]
        leader = self.cluster.leader(self.topic)
        followers = [number for number in self.cluster.replicas(self.topic) if number != leader]
        return self.cluster.brokers[leader if role == "leader" else followers[0]]

    def ensemble(self) -> Ensemble:
        assert self.cluster.ensemble is not None
        return self.cluster.ensemble

    def store(self) -> ChaosStore:
        assert self.cluster.store is not None
        return self.cluster.store

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
    """A machine that is suspended for longer than its session, and then continues."""
    broker = scene.victim(role)
    broker.signal(signal.SIGSTOP)
    time.sleep(1.5 * SESSION_SECONDS)
    broker.signal(signal.SIGCONT)
    scene.go_on()


def lose_power(scene: Scene, role: str) -> None:
    """The machine of a broker loses unsynced data and restarts with another boot id."""
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
    """Half-open: the connection exists, but nothing is transmitted."""
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


def lose_requests_of_peers(scene: Scene, role: str) -> None:
    """One-way: others receive from the broker, but it does not receive from them."""
    scene.cluster.freeze_between_peers(scene.victim(role).node_id, Way.FROM_SOURCE)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.cluster.heal()
    scene.go_on()


def lose_answers_to_peers(scene: Scene, role: str) -> None:
    """One-way: the broker receives from others, but they do not receive from it."""
    scene.cluster.freeze_between_peers(scene.victim(role).node_id, Way.TO_SOURCE)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.cluster.heal()
    scene.go_on()


def slow_to_peers(scene: Scene, role: str) -> None:
    """A network that takes its time: everything arrives, later than it should. A transaction takes seconds then."""
    scene.cluster.delay_between_peers(scene.victim(role).node_id, SLOW_SECONDS)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.go_on(10)
    scene.cluster.heal()


def slow_to_zookeeper(scene: Scene, role: str) -> None:
    broker = scene.victim(role)
    broker.to_zookeeper.delay(broker.node_id, SLOW_SECONDS)
    time.sleep(1.5 * SESSION_SECONDS)
    scene.go_on()
    scene.cluster.heal()


def lose_answers_of_zookeeper(scene: Scene, role: str) -> None:
    """ZooKeeper receives from the broker and keeps its session; the broker receives nothing and must expire itself."""
    broker = scene.victim(role)
    broker.to_zookeeper.freeze(broker.node_id, [Way.TO_SOURCE])
    time.sleep(1.5 * SESSION_SECONDS)
    scene.cluster.heal()
    scene.go_on()


def fill_disk(scene: Scene, role: str) -> None:
    """Fill the disk of a broker that leads some partitions and follows others; it reports it, and continues with
    free space."""
    disk, broker = scene.cluster.small_disk, scene.cluster.brokers[WITH_SMALL_DISK]
    said_before = broker.output.read_text().count(NO_ROOM)
    disk.fill()
    try:
        until(lambda: broker.output.read_text().count(NO_ROOM) > said_before, "the broker says what is wrong")
        time.sleep(SESSION_SECONDS)
    finally:
        disk.make_room()
    scene.go_on()
    assert broker.is_running, "the broker did not survive a full disk"


def kill_controller_while_moving(scene: Scene, role: str) -> None:
    """A slow reassignment; the controller dies; its successor completes it."""
    cluster, tp = scene.cluster, TopicPartition(scene.topic, 0)
    before = cluster.replicas(*tp)
    newcomer = next(number for number in cluster.brokers if number not in before)
    after = [*before[1:], newcomer]
    hold_back(cluster.clients, scene.topic, newcomer)
    move(cluster.clients, tp, after)
    until(lambda: newcomer in cluster.replicas(*tp), "the move has begun")
    controller = scene.victim("controller")
    controller.kill()
    scene.go_on()
    assert set(before) < set(cluster.replicas(*tp)), "the move ended too early"
    controller.start()
    let_go(cluster.clients, newcomer)
    until(lambda: cluster.replicas(*tp) == after, "the move has ended", 120)


def restart_zookeeper(scene: Scene, role: str) -> None:
    scene.cluster.zookeeper.stop()
    time.sleep(1)
    scene.cluster.zookeeper.start()
    scene.go_on()


def kill_in_ensemble(scene: Scene, mode: str) -> None:
    """A server of ZooKeeper dies; the brokers that were connected to it find another."""
    server = scene.ensemble().one(mode)
    server.kill()
    scene.go_on()
    scene.whole()
    server.start()


def pause_in_ensemble(scene: Scene, mode: str) -> None:
    """A server is isolated for longer than a session, and resumes with its old state."""
    server = scene.ensemble().one(mode)
    server.pause()
    time.sleep(1.5 * SESSION_SECONDS)
    scene.go_on()
    scene.whole()
    server.resume()
    server.wait_until_ready()


def restart_ensemble(scene: Scene, role: str) -> None:
    """A rolling restart, as for an update."""
    for server in scene.ensemble().servers.values():
        server.stop()
        server.start()
        scene.go_on()


def two_in_a_row(scene: Scene, role: str) -> None:
    """The second dies as soon as the first is back in the ISR."""
    for _ in range(2):
        kill(scene, role)
        scene.whole()


def slow_disk(scene: Scene, role: str) -> None:
    """Appends take longer than a session: the broker keeps it, and serves requests that need no disk."""
    broker = scene.victim(role)
    broker.slow_disk(SLOW_SECONDS)
    until(lambda: IS_SLOW in broker.output.read_text(), "the broker writes in a thread")
    time.sleep(1.5 * SESSION_SECONDS)
    broker.slow_disk(0)
    scene.go_on()


def kill_slow_disk(scene: Scene, role: str) -> None:
    """Unwritten records are lost with the process; none was acknowledged."""
    broker = scene.victim(role)
    broker.slow_disk(SLOW_SECONDS)
    until(lambda: IS_SLOW in broker.output.read_text(), "the broker writes in a thread")
    scene.go_on(10)
    broker.kill()
    broker.slow_disk(0)
    scene.go_on()
    broker.start()


def two_at_once(scene: Scene, role: str) -> None:
    """The second broker dies before the first is back: no writes, and no loss, until one of them returns."""
    first = scene.victim(role)
    first.kill()
    scene.go_on()  # by earlier acknowledgements, possibly
    until(lambda: scene.victim(role) is not first, f"another broker is {role}")
    second = scene.victim(role)
    second.kill()
    time.sleep(SESSION_SECONDS)
    first.start()
    scene.go_on()
    second.start()


def all_in_turn(scene: Scene, role: str) -> None:
    for broker in scene.cluster.brokers.values():
        broker.stop()
        broker.start()
        scene.whole()


def kill_store(scene: Scene, role: str) -> None:
    """Producers are not affected; copying resumes when the store is back."""
    store = scene.store()
    store.kill()
    time.sleep(SESSION_SECONDS)
    scene.go_on()
    store.start()


def pause_store(scene: Scene, role: str) -> None:
    store = scene.store()
    store.pause()
    time.sleep(2 * SESSION_SECONDS)  # longer than a request to it waits
    scene.go_on()
    store.resume()


def slow_store(scene: Scene, role: str) -> None:
    store = scene.store()
    store.slow_down(SLOW_SECONDS)
    time.sleep(2 * SESSION_SECONDS)
    scene.go_on()
    store.make_whole()


def kill_with_slow_store(scene: Scene, role: str) -> None:
    """A leader dies while all that it sends to the store is on its way; the next one copies on."""
    scene.store().slow_down(SLOW_SECONDS)
    time.sleep(SESSION_SECONDS)
    kill(scene, role)
    scene.store().make_whole()


def pause_with_slow_store(scene: Scene, role: str) -> None:
    """A leader is suspended while it copies, and resumes after another was elected."""
    scene.store().slow_down(SLOW_SECONDS)
    time.sleep(SESSION_SECONDS)
    pause(scene, role)
    scene.store().make_whole()


class Fault(NamedTuple):
    name: str
    action: Callable[[Scene, str], None]
    role: str
    allowed_gap: float | None = None
    """Seconds without an acknowledgement on some partition; None where nothing is promised."""
    brokers: int = 3
    needs_small_disk: bool = False
    needs_store: bool = False
    needs_ensemble: bool = False

    def is_possible(self, cluster: ChaosCluster) -> bool:
        return not self.obstacle(cluster)

    def obstacle(self, cluster: ChaosCluster) -> str:
        """Why it cannot be done to this cluster; empty if it can."""
        if len(cluster.brokers) < self.brokers:
            return f"it needs {self.brokers} brokers"
        if self.needs_small_disk and not cluster.has_small_disk:
            return "only root can mount a small disk"
        if self.needs_ensemble and cluster.ensemble is None:
            return "it needs --zookeepers 3"
        has_process = cluster.store is not None and cluster.store.is_process
        return "it needs versitygw" if self.needs_store and not has_process else ""


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
    Fault("lose what peers ask the leader", lose_requests_of_peers, "leader"),
    Fault("lose the leader's answers to peers", lose_answers_to_peers, "leader"),
    Fault("lose ZooKeeper's answers to the leader", lose_answers_of_zookeeper, "leader"),
    Fault("slow down the leader's links to its peers", slow_to_peers, "leader"),
    Fault("slow down the controller's link to ZooKeeper", slow_to_zookeeper, "controller"),
    Fault("kill two leaders at once", two_at_once, "leader"),
    Fault("slow down the leader's disk", slow_disk, "leader"),
    Fault("slow down a follower's disk", slow_disk, "follower"),
    Fault("slow down the coordinator's disk", slow_disk, "coordinator"),
    Fault("kill a leader whose disk is slow", kill_slow_disk, "leader"),
    Fault("fill a disk", fill_disk, "", needs_small_disk=True),
    Fault("kill the controller during a move", kill_controller_while_moving, "", brokers=4),
    Fault("restart ZooKeeper", restart_zookeeper, ""),
)
STORE_FAULTS: tuple[Fault, ...] = (
    Fault("kill the object store", kill_store, "", needs_store=True),
    Fault("pause the object store", pause_store, "", needs_store=True),
    Fault("slow down the object store", slow_store, "", needs_store=True),
    Fault("kill the leader, the store is slow", kill_with_slow_store, "leader", KILLED_GAP, needs_store=True),
    Fault("pause the leader, the store is slow", pause_with_slow_store, "leader", needs_store=True),
)
"""Of tiered clusters only."""
ENSEMBLE_FAULTS: tuple[Fault, ...] = (
    Fault("kill the ensemble's leader", kill_in_ensemble, "leader", KILLED_GAP, needs_ensemble=True),
    Fault("kill a follower of the ensemble", kill_in_ensemble, "follower", KILLED_GAP, needs_ensemble=True),
    Fault("cut off the ensemble's leader", pause_in_ensemble, "leader", KILLED_GAP, needs_ensemble=True),
    Fault(
        "cut off a follower of the ensemble", pause_in_ensemble, "follower", KILLED_GAP, needs_ensemble=True
    ),
    Fault("restart the ensemble in turn", restart_ensemble, "", KILLED_GAP, needs_ensemble=True),
)
"""Of clusters with several ZooKeeper servers only."""
