"""One story from a seed: brokers and links fail and come back while clients write and read; then all is mended."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.cluster.deltas import apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.cluster.memory import MemoryCluster
from barnabas.cluster.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.controller.decision import Decision
from barnabas.controller.reassignment import alter_reassignments
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.errors import KafkaError
from barnabas.testing.simulation.brokers import LOG_DIRS, SESSION_TIMEOUT, Machine, SimulatedBroker
from barnabas.testing.simulation.clients import TOPIC, Committer, Reader, Violation, Writer
from barnabas.testing.simulation.invariants import Invariants, contents, memory
from barnabas.testing.simulation.loop import NothingLeftToDo, VirtualLoop
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.operator import SCRATCH, Operator
from barnabas.testing.simulation.trader import MARK, CommittedReader, Trader
from barnabas.types import TopicPartition

MACHINES = (3, 4)  # with four, a partition can move to another machine
PARTITIONS = 2
REPLICAS = 3
STORY_SECONDS = 3.0
MENDING_SECONDS = 90.0  # the longest way: a session runs out, an ISR shrinks, a log is fetched anew
STOPPING_SECONDS = 30.0
CHECK_SECONDS = 0.02
WITH_TRANSACTIONS = 0.4  # of the stories; in the others, consumers commit offsets
PACES = (
    3.0,
    5.0,
    9.0,
)  # events a second: in calm stories clients get on, in wild ones failures meet each other
PAUSES = (0.2, 0.6, 1.2, 2.5)  # shorter and longer than a session lasts

Action = Callable[[], Coroutine[Any, Any, None]]


class StoryFailed(Exception):  # noqa: N818 - a finding, not an error of the simulator
    def __init__(self, seed: int, reason: str, events: list[str]) -> None:
        super().__init__(seed, reason, events)  # as given, so that it travels between processes
        self.seed = seed
        self.reason = reason
        self.events = events

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}: {self.reason}", *self.events))


class Story:
    def __init__(self, seed: int, *, thorough: bool = False) -> None:
        self.seed = seed
        self.events: list[str] = []
        self.loop = VirtualLoop()
        self._chance = random.Random(seed)
        self._network = Network(self._chance, self.loop)
        self._cluster = MemoryCluster(SESSION_TIMEOUT, self._network.delay)
        self._machines = [
            Machine(number, self._cluster, self._network, self.loop, self._chance)
            for number in range(1, self._chance.choice(MACHINES) + 1)
        ]
        self._writers = [
            Writer(self._network, index, self._image, self._chance) for index in range(PARTITIONS)
        ]
        self._readers = [
            Reader(self._network, index, self._image, self._chance) for index in range(PARTITIONS)
        ]
        self._committers = [
            Committer(self._network, index, self._image, self._chance) for index in range(PARTITIONS)
        ]
        self.trader = Trader(self._network, self._image, self._chance)
        self._committed_readers = [
            CommittedReader(self._network, index, self._image, self._chance) for index in range(PARTITIONS)
        ]
        self._has_transactions = self._chance.random() < WITH_TRANSACTIONS
        self._invariants = Invariants(self._machines, self._writers, thorough=thorough)
        self._operator = Operator(self._chance, TOPIC)
        self._tasks: list[asyncio.Task[None]] = []
        self._head: tuple[int, MetadataImage] = (0, EMPTY_IMAGE)
        self._actions: tuple[tuple[int, Action], ...] = (
            (5, self._kill),
            (2, self._lose_power),
            (3, self._pause),
            (3, self._stop),
            (9, self._start),
            (4, self._cut_link),
            (4, self._heal_links),
            (2, self._cut_session),
            (3, self._heal_sessions),
            (1, self._expire_session),
            (2, self._change_network),
            (2, self._move),
            (3, self._move_to_other_dir),
            (3, self._change_settings),
        )

    # -- running ------------------------------------------------------------------------------------

    def run(self) -> None:
        """StoryFailed when something was true that must never be."""
        complaints = _Complaints()
        random.seed(self.seed)
        try:
            with complaints:
                asyncio.set_event_loop(self.loop)
                self.loop.run_until_complete(self._tell())
                if complaints.first is not None:
                    raise Violation(complaints.first)
        except Exception as error:
            raise StoryFailed(self.seed, _reason(error), self.events) from error
        finally:
            self._end()

    def _end(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        asyncio.set_event_loop(None)
        self.loop.close()

    async def _tell(self) -> None:
        await self._begin()
        end = self.loop.time() + STORY_SECONDS
        pace = self._chance.choice(PACES)
        while self.loop.time() < end:
            await self._pass(self._chance.expovariate(pace))
            weights = [weight for weight, _ in self._actions]
            await self._chance.choices([action for _, action in self._actions], weights)[0]()
        await self._mend()
        await self._compare()

    async def _begin(self) -> None:
        for machine in self._machines:
            machine.start()
        await self._until(lambda: all(machine.serves for machine in self._machines), "the brokers start")
        controller = self._controller()
        assert controller is not None
        wanted = [
            NewTopic(TOPIC, PARTITIONS, REPLICAS, configs={"min.insync.replicas": "2"}),
            NewTopic(SCRATCH, 1, REPLICAS),
        ]
        ids = iter((bytes([7] * 16), bytes([8] * 16)))
        await controller.controller.submit(
            lambda image: create_topics(image, wanted, controller.policy, new_id=lambda: next(ids))
        )
        internal = TRANSACTION_STATE if self._has_transactions else CONSUMER_OFFSETS
        await controller.coordinators.create_topic(internal)
        self._tasks = [
            asyncio.ensure_future(client.run()) for client in (*self._with_an_end(), *self._endless())
        ]

    def _with_an_end(self) -> list[Writer | Committer | Trader]:
        """Clients that finish what they do when they are asked to."""
        return [*self._writers, *([self.trader] if self._has_transactions else self._committers)]

    def _endless(self) -> list[Reader]:
        return [*self._readers, *(self._committed_readers if self._has_transactions else ())]

    async def _pass(self, seconds: float) -> None:
        """Let time pass, and look again and again."""
        end = self.loop.time() + seconds
        while True:
            self._check()
            left = end - self.loop.time()
            if left <= 0:
                return
            await asyncio.sleep(min(left, CHECK_SECONDS))

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = self.loop.time() + MENDING_SECONDS
        while not condition():
            if self.loop.time() > end:
                raise Violation(f"this never came true: {what}")
            await self._pass(CHECK_SECONDS)

    def _check(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        image = self._image()
        self._invariants.check(image)
        for machine in self._machines:
            if machine.lost_power and machine.serves and _is_in_sync(image, machine.number):
                machine.lost_power = False

    def _image(self) -> MetadataImage:
        known, image = self._head
        if known != len(self._cluster.entries):
            for entry in self._cluster.entries[known:]:
                image = apply(image, entry.deltas)
            self._head = len(self._cluster.entries), image
        return image

    def _controller(self) -> SimulatedBroker | None:
        active = (machine.broker for machine in self._machines if machine.serves and machine.broker)
        return next((broker for broker in active if broker.controller.is_active), None)

    def _note(self, text: str) -> None:
        self.events.append(f"{self.loop.time():8.3f} {text}")

    # -- what happens -------------------------------------------------------------------------------

    def _pick(self, *, up: bool) -> Machine | None:
        fitting = [machine for machine in self._machines if machine.is_up == up]
        return self._chance.choice(fitting) if fitting else None

    async def _kill(self) -> None:
        if machine := self._pick(up=True):
            self._note(f"broker {machine.number} is killed")
            await machine.kill()

    async def _lose_power(self) -> None:
        machine = self._pick(up=True)
        # One machine at a time: what is acknowledged survives the loss of any one.
        is_safe = not self._operator.has_lowered_minimum and not self._power_was_lost()
        if machine is not None and is_safe:
            self._note(f"machine {machine.number} loses power")
            await machine.kill(power=True)

    def _power_was_lost(self) -> bool:
        return any(machine.lost_power for machine in self._machines)

    async def _pause(self) -> None:
        machine = self._pick(up=True)
        if machine is not None and not machine.is_stopped:
            seconds = self._chance.choice(PAUSES)
            self._note(f"broker {machine.number} does nothing for {seconds} s")
            machine.pause()
            self.loop.call_later(seconds, self._resume, machine, machine.broker)

    def _resume(self, machine: Machine, broker: SimulatedBroker | None) -> None:
        if machine.broker is broker and machine.is_stopped:
            self._note(f"broker {machine.number} goes on")
            machine.resume()

    async def _stop(self) -> None:
        machine = self._pick(up=True)
        if machine is not None and machine.serves and not machine.is_stopped:
            self._note(f"broker {machine.number} is stopped")
            try:
                async with asyncio.timeout(STOPPING_SECONDS):
                    await machine.stop()
            except TimeoutError:
                raise Violation(f"broker {machine.number} does not come to an end") from None

    async def _start(self) -> None:
        if machine := self._pick(up=False):
            self._note(f"broker {machine.number} starts")
            machine.start()

    async def _cut_link(self) -> None:
        one, other = (machine.number for machine in self._chance.sample(self._machines, 2))
        self._network.cuts.add((one, other))
        if self._chance.random() < 0.5:
            self._network.cuts.add((other, one))
        self._note(f"cut between brokers: {sorted(self._network.cuts)}")

    async def _heal_links(self) -> None:
        self._network.cuts.clear()
        self._note("all links are whole")

    async def _cut_session(self) -> None:
        machine = self._pick(up=True)
        if machine is not None and machine.session is not None and not machine.is_stopped:
            self._note(f"broker {machine.number} is cut off from the coordinator")
            machine.session.cut()

    async def _heal_sessions(self) -> None:
        self._note("the coordinator can be reached")
        for machine in self._machines:
            if machine.session is not None and not machine.session.is_connected and not machine.is_stopped:
                machine.session.heal()

    async def _expire_session(self) -> None:
        machine = self._pick(up=True)
        if machine is not None and machine.session is not None and machine.serves and not machine.is_stopped:
            self._note(f"the session of broker {machine.number} expires")
            machine.session.expire()

    async def _change_network(self) -> None:
        self._network.loss = self._chance.choice((0.0, 0.0, 0.02, 0.2))
        self._network.duplication = self._chance.choice((0.0, 0.1))
        self._note(f"the network loses {self._network.loss:.0%}, repeats {self._network.duplication:.0%}")

    async def _move(self) -> None:
        controller = self._controller()
        if controller is None or self._machines[controller.node_id - 1].is_stopped:
            return
        place = TopicPartition(TOPIC, self._chance.randrange(PARTITIONS))
        wanted = [machine.number for machine in self._chance.sample(self._machines, REPLICAS)]
        target = self._chance.choice((None, wanted))
        self._note(f"{place} is to move to {target}")
        await self._ask(
            controller, lambda image: alter_reassignments(image, [(place, target)], controller.policy)
        )

    async def _change_settings(self) -> None:
        controller = self._controller()
        if controller is None or self._machines[controller.node_id - 1].is_stopped:
            return
        words, decision = self._operator.wish(controller, one_may_do=not self._power_was_lost())
        self._note(words)
        await self._ask(controller, decision)

    async def _ask(self, controller: SimulatedBroker, decision: Decision[Any]) -> None:
        try:
            # Cut off from the coordinator, it hears of its decision much later.
            async with asyncio.timeout(1.0):
                await controller.controller.submit(decision)
        except (KafkaError, TimeoutError) as error:
            self._note(f"which fails: {error}")

    async def _move_to_other_dir(self) -> None:
        machine = self._pick(up=True)
        if machine is None or not machine.serves or machine.is_stopped:
            return
        place = TopicPartition(TOPIC, self._chance.randrange(PARTITIONS))
        folder = self._chance.choice(LOG_DIRS)
        self._note(f"{place} of broker {machine.number} is to lie in {folder}")
        try:
            machine.move_to_dir(place, folder)
        except KafkaError as error:
            self._note(f"which fails: {error}")

    # -- the end ------------------------------------------------------------------------------------

    async def _mend(self) -> None:
        self._note("everything is mended")
        self._network.cuts.clear()
        self._network.loss = self._network.duplication = 0.0
        for machine in self._machines:
            machine.resume()
        await self._heal_sessions()
        for machine in self._machines:
            if not machine.is_up:
                machine.start()
        await self._until(lambda: all(machine.serves for machine in self._machines), "all brokers serve")
        await self._until(self._all_in_sync, "all replicas are in sync")
        await self._until(
            lambda: self._image().topics[SCRATCH].partitions[0].leader >= 0, "every partition has a leader"
        )
        for client in self._with_an_end():
            client.is_to_stop = True
        finite = self._tasks[: len(self._with_an_end())]
        await self._until(lambda: all(task.done() for task in finite), "all is written")
        await self._until(self._all_ends_equal, "all replicas have the same end")
        await self._until(
            lambda: not any(machine.moves_replicas for machine in self._machines), "all replicas have moved"
        )

    def _all_in_sync(self) -> bool:
        topic = self._image().topics[TOPIC]
        return all(
            set(state.isr) == set(state.replicas) and state.leader >= 0 and not state.being_reassigned
            for state in topic.partitions
        )

    def _all_ends_equal(self) -> bool:
        return all(
            len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1
            and logs[0].last_stable_offset == logs[0].log_end_offset
            for logs in map(self._logs, range(PARTITIONS))
        )

    def _logs(self, index: int) -> list[Any]:
        replicas = self._image().topics[TOPIC].partitions[index].replicas
        brokers = [machine.broker for machine in self._machines if machine.number in replicas]
        found = [broker.replicas.find(TOPIC, index) for broker in brokers if broker is not None]
        return [partition.log for partition in found if partition is not None]

    async def _compare(self) -> None:
        self._invariants.check(self._image(), thorough=True)
        for writer, reader in zip(self._writers, self._readers, strict=True):
            logs = self._logs(writer.index)
            if any(contents(log) != contents(logs[0]) for log in logs):
                raise Violation(f"the replicas of partition {writer.index} differ in the end")
            if any(memory(log) != memory(logs[0]) for log in logs):
                raise Violation(f"the replicas of partition {writer.index} remember different things")
            await self._read_again(reader)
            self._compare_values(writer, reader)
        if self._has_transactions:
            await self._compare_transactions()
        else:
            for committer in self._committers:
                await self._compare_commits(committer)
        brokers = [machine.broker for machine in self._machines if machine.broker is not None]
        await self._until(
            lambda: all(broker.image.offset == self._image().offset for broker in brokers), "all know all"
        )
        for machine in self._machines:
            if machine.broker is not None and machine.broker.image != self._image():
                raise Violation(f"broker {machine.number} has another image than a replay of the log gives")

    async def _read_again(self, reader: Reader) -> None:
        """From the beginning to the end, from whoever leads: leadership may still go back to where it belongs."""
        end, deadline = self._logs(reader.index)[0].log_end_offset, self.loop.time() + MENDING_SECONDS
        reader.position = 0
        while reader.position < end:
            state = self._image().topics[TOPIC].partitions[reader.index]
            reader.epoch = state.leader_epoch
            if not await reader.read_once(state.leader):
                await self._pass(0.05)
            if self.loop.time() > deadline:
                raise Violation(f"partition {reader.index} cannot be read from {reader.position} to {end}")

    async def _compare_transactions(self) -> None:
        for index, reader in enumerate(self._committed_readers):
            again = CommittedReader(self._network, index, self._image, self._chance)
            await self._read_again(reader)
            await self._read_again(again)
            if taken_back := reader.seen.keys() - again.seen.keys():
                raise Violation(
                    f"offsets {sorted(taken_back)} of partition {index} were seen as committed, and are not"
                )
        self.trader.compare([reader.seen for reader in self._committed_readers])

    async def _compare_commits(self, committer: Committer) -> None:
        end = self.loop.time() + MENDING_SECONDS
        while (found := await committer.committed()) is None:
            if self.loop.time() > end:
                raise Violation("the coordinator does not answer")
            await self._pass(0.1)
        if found < committer.acknowledged:
            raise Violation(
                f"offset {committer.acknowledged} was committed, and {found} is what is left of it"
            )

    @staticmethod
    def _compare_values(writer: Writer, reader: Reader) -> None:
        for offset, value in writer.acknowledged.items():
            if reader.seen.get(offset) != str(value).encode():
                raise Violation(
                    f"value {value} was acknowledged at offset {offset} of partition {writer.index}, "
                    f"where {reader.seen.get(offset)!r} is"
                )
        seen = [reader.seen[offset] for offset in sorted(reader.seen)]
        values = [int(value) for value in seen if not value.startswith(MARK)]
        if values != list(range(len(values))):
            raise Violation(
                f"partition {writer.index} has values twice, out of order or not at all: {values}"
            )


def _reason(error: Exception) -> str:
    if isinstance(error, Violation | NothingLeftToDo):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))  # whoever raised it is what one wants to know


def _is_in_sync(image: MetadataImage, number: int) -> bool:
    return all(number in state.isr for state in image.topics[TOPIC].partitions if number in state.replicas)


class _Complaints(logging.Handler):
    """Nothing is printed; an exception that a broker logged is a finding."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None
        self._logger = logging.getLogger("barnabas")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self.first is None:
            formatter = logging.Formatter()
            self.first = f"{record.getMessage()}\n{formatter.formatException(record.exc_info)}"

    def __enter__(self) -> None:
        self._before = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._before
