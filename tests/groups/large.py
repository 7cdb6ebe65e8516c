"""Groups of maximum size, and the duration of each event loop iteration they cause.

    python -m tests.groups.large [name ...]

A turn is one request, or one callback of the loop: between two of them the loop serves others. A heartbeat goes through
the coordinator as from a handler; decoding the request and encoding the answer are not part of it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

from barnabas.broker.main import collect_rarely, keep_all
from barnabas.cluster.image import TopicState
from barnabas.common.clock import ManualClock
from barnabas.groups.group import ClientInfo
from barnabas.protocol.messages.share import ShareGroupHeartbeatRequest
from tests.groups.consumer.simulation import ConsumerSimulation
from tests.groups.consumer.talks import beat, joining
from tests.groups.simulation import GROUP, Answer
from tests.groups.streams.simulation import StreamsSimulation
from tests.support.builders.streams import sent_topology, subtopology

NEVER, AT_ONCE = "1000000000", "0"


class RealTime(ManualClock):
    """Iterations end by the clock; deadlines are reached on demand."""

    def monotonic(self) -> float:
        return time.process_time()


class Watched:
    """A simulation whose turns are timed."""

    def __init__(self, simulation: ConsumerSimulation) -> None:
        self.simulation = simulation
        collect_rarely()  # as a broker does
        simulation.machine.clock = RealTime()
        simulation.restart()
        simulation.machine.run_soon = self._run_soon  # type: ignore[method-assign]
        self._write = simulation.coordinator.write
        simulation.coordinator.write = self._timed_write  # type: ignore[method-assign, assignment]
        self.forget()

    def forget(self) -> None:
        keep_all()
        self.turns: list[float] = []

    def _timed_write(self, *arguments: Any) -> None:
        self._time(lambda: self._write(*arguments))

    def _run_soon(self) -> None:
        soon = self.simulation.machine.soon
        while soon:
            self._time(soon.pop(0))

    def _time(self, iteration: Callable[[], None]) -> None:
        began = time.process_time()  # on a busy machine others have turns, too
        iteration()
        self.turns.append(time.process_time() - began)

    def create_topics(self, topics: dict[str, int]) -> list[str]:
        """All at once: one by one they would be copied again and again."""
        simulation = self.simulation
        create = simulation._use
        states: dict[str, TopicState] = {}
        simulation._use = states.update  # type: ignore[method-assign, assignment]
        for name, partitions in topics.items():
            simulation.create(name, partitions)
        simulation._use = create  # type: ignore[method-assign]
        simulation._use(states)
        return list(topics)

    def report(self, what: str) -> None:
        longest, total = max(self.turns) * 1000, sum(self.turns) * 1000
        sys.stdout.flush()
        sys.stdout.write(f"{what:66} {longest:8.1f} ms of {total:9.1f} ms in {len(self.turns):5} turns\n")
        self.forget()


def consumers(
    name: str,
    members: int,
    topics: dict[str, int],
    choose: Callable[[int, list[str]], list[str]],
    assignor: str = "uniform",
) -> None:
    watched = Watched(simulation := ConsumerSimulation())
    names = watched.create_topics(topics)
    simulation.overrides["consumer.assignment.interval.ms"] = AT_ONCE
    first = joining(GROUP, "m000000", *choose(0, names), server_assignor=assignor)
    assert not simulation.say(first).error_code
    simulation.overrides["consumer.assignment.interval.ms"] = NEVER
    watched.forget()
    for number in range(1, members):
        answer = simulation.say(
            joining(GROUP, f"m{number:06}", *choose(number, names), server_assignor=assignor)
        )
        assert not answer.error_code, answer
    watched.report(f"{name}: joins without an assignment")
    simulation.overrides["consumer.assignment.interval.ms"] = AT_ONCE
    epoch = simulation.consumer_group.members["m000001"].member_epoch
    answer = simulation.say(beat(GROUP, "m000001", epoch))
    assert not answer.error_code, answer
    watched.report(f"{name}: the first assignment")
    assert simulation.consumer_group.assignment_epoch == simulation.consumer_group.epoch
    simulation.say(joining(GROUP, "late", *choose(members, names), server_assignor=assignor))
    watched.report(f"{name}: one more joins")
    for number in range(1, members, max(members // 50, 1)):
        epoch = simulation.consumer_group.members[f"m{number:06}"].member_epoch
        assert not simulation.say(beat(GROUP, f"m{number:06}", epoch, topic_partitions=[])).error_code
    watched.report(f"{name}: heartbeats")
    simulation.say(beat(GROUP, "late", -1))
    watched.report(f"{name}: one leaves")
    simulation.clock.advance(1)


def streams(name: str, members: int, subtopologies: int, tasks: int, standbys: int) -> None:
    watched = Watched(simulation := StreamsSimulation({}))
    sizes = {f"t{number}": tasks // subtopologies for number in range(subtopologies)}
    stores = {f"s{number}": tasks // subtopologies for number in range(subtopologies)}
    watched.create_topics({**sizes, **stores})
    topology = sent_topology(
        *(subtopology(str(one), f"t{one}", changelogs=[f"s{one}"]) for one in range(subtopologies))
    )
    simulation.overrides["streams.assignment.interval.ms"] = AT_ONCE
    simulation.overrides["streams.num.standby.replicas"] = str(standbys)
    simulation.arrive("m000000", topology=topology)
    watched.report(f"{name}: the first joins")
    simulation.overrides["streams.assignment.interval.ms"] = NEVER
    for number in range(1, members):
        assert not simulation.arrive(f"m{number:06}", topology=topology).error_code
    watched.report(f"{name}: joins without an assignment")
    simulation.overrides["streams.assignment.interval.ms"] = AT_ONCE
    assert not simulation.beat("m000001", simulation.streams_group.members["m000001"].member_epoch).error_code
    watched.report(f"{name}: an assignment for all")
    simulation.arrive("late", topology=topology)
    watched.report(f"{name}: one more joins")
    simulation.depart("late")
    simulation.beat("m000001", simulation.streams_group.members["m000001"].member_epoch)
    watched.report(f"{name}: one leaves")


def shares(
    name: str, members: int, topics: dict[str, int], choose: Callable[[int, list[str]], list[str]]
) -> None:
    watched = Watched(simulation := ConsumerSimulation(share_max_size=1000))
    names = watched.create_topics(topics)

    def say(request: ShareGroupHeartbeatRequest) -> Any:
        answer = Answer()
        simulation.coordinator.share_heartbeat(request, ClientInfo("client", "/127.0.0.1"), answer)
        response, missing = answer.response.response, answer.response.missing
        if missing:
            simulation.coordinator.write(GROUP, lambda shard: shard.share.state_created(GROUP, missing))
        simulation.machine.run_soon()
        assert not response.error_code, response
        return response

    def join(number: int) -> Any:
        return say(ShareGroupHeartbeatRequest(GROUP, f"m{number:06}", 0, None, choose(number, names)))

    simulation.overrides["share.assignment.interval.ms"] = AT_ONCE
    join(0)
    simulation.overrides["share.assignment.interval.ms"] = NEVER
    watched.forget()
    for number in range(1, members):
        join(number)
    watched.report(f"{name}: joins without an assignment")
    simulation.overrides["share.assignment.interval.ms"] = AT_ONCE
    epoch = simulation.shard.share.find(GROUP).members["m000001"].member_epoch
    say(ShareGroupHeartbeatRequest(GROUP, "m000001", epoch))
    watched.report(f"{name}: an assignment for all")
    say(ShareGroupHeartbeatRequest(GROUP, "late", 0, None, choose(members, names)))
    watched.report(f"{name}: one more joins")


def alike(number: int, names: list[str]) -> list[str]:
    return names


def all_but_one(number: int, names: list[str]) -> list[str]:
    return [name for index, name in enumerate(names) if index != number % len(names)]


def half(number: int, names: list[str]) -> list[str]:
    return random.Random(number).sample(names, len(names) // 2)


def few(number: int, names: list[str]) -> list[str]:
    return random.Random(number).sample(names, 5)


FIVE_THOUSAND = {f"topic-{number:05}": 1 for number in range(5000)}

CASES: dict[str, Callable[[], None]] = {
    "own-sets": lambda: consumers(
        "1,000 consumers, own sets of 5,000 topics", 1000, FIVE_THOUSAND, all_but_one
    ),
    "own-ranges": lambda: consumers("the same, range", 1000, FIVE_THOUSAND, all_but_one, "range"),
    "halves": lambda: consumers("300 consumers, halves of 5,000 topics", 300, FIVE_THOUSAND, half),
    "alike": lambda: consumers("1,000 consumers alike, 5,000 topics", 1000, FIVE_THOUSAND, alike),
    "alike-range": lambda: consumers("the same, range", 1000, FIVE_THOUSAND, alike, "range"),
    "partitions": lambda: consumers(
        "100 consumers, 5 topics of 10,000", 100, {f"t{n}": 10_000 for n in range(5)}, alike
    ),
    "members": lambda: consumers(
        "20,000 consumers, 10 topics of 1,000", 20_000, {f"t{n}": 1000 for n in range(10)}, few
    ),
    "streams": lambda: streams("200 threads, 10,000 tasks", 200, 10, 10_000, 0),
    "standbys": lambda: streams("200 threads, 10,000 tasks, 2 standbys", 200, 10, 10_000, 2),
    "threads": lambda: streams("5,000 threads, 10,000 tasks, 2 standbys", 5000, 10, 10_000, 2),
    "share": lambda: shares("200 share members alike, 5,000 topics", 200, FIVE_THOUSAND, alike),
    "share-own": lambda: shares("200 share members, own sets of 5,000", 200, FIVE_THOUSAND, all_but_one),
}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
