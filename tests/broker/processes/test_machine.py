"""A simulated machine: processes that share a log dir, the real hub state, kills, power cuts and names used again.

Each run is a random sequence of steps, repeatable by its seed. At most one process has a log open, a log that is opened
has every record that it must have, and none looks damaged. Five mutants of the hub and of the handover are found.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from barnabas.cluster.hub import AboutLogDir, HubLogDirState, NodeLogDirs
from barnabas.cluster.hub.messages import HoldsGranted, LogDirAnswer
from barnabas.cluster.hub.state import HubState, Outgoing
from barnabas.common.clock import ManualClock
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.handover import ClosingLog
from barnabas.log.dirs.log_dir import CheckpointJob
from barnabas.log.dirs.manager import LogManager
from barnabas.log.recovery import ShutdownKind
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, append, batch, read_all

FOLDER = "/data"
PROCESSES = 3
PARTITIONS = [TopicPartition("orders", index) for index in range(2)]
STEPS = 150
SEEDS = range(12)
CONFIG = BrokerConfig.load({"log.dirs": FOLDER, "barnabas.disk.reserve.bytes": "0"})


@dataclass
class Process:
    """A run of a process, and its log manager."""

    k: int
    session: int
    logs: LogManager
    asked: set[TopicPartition] = field(default_factory=set)
    held: set[TopicPartition] = field(default_factory=set)
    closing: dict[TopicPartition, ClosingLog] = field(default_factory=dict)
    late: list[CheckpointJob] = field(default_factory=list)


class Machine:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fs = FaultyFileSystem()
        self.sessions = 0
        self.flushes_before_release = True
        self.topic_ids: dict[TopicPartition, Uuid] = {each: self.new_id() for each in PARTITIONS}
        self.written: dict[TopicPartition, list[bytes]] = defaultdict(list)
        self.synced: dict[TopicPartition, int] = defaultdict(int)
        self.marks: dict[TopicPartition, int] = defaultdict(int)
        """High watermarks at the last close."""
        self.lost_power: set[TopicPartition] = set()
        self.processes: list[Process] = []
        self.boot = 0
        self.start()

    def new_id(self) -> Uuid:
        return self.random.randbytes(16)

    def start(self) -> None:
        """Start the machine."""
        self.boot += 1
        self.dirs = NodeLogDirs(self.fs, [FOLDER], 1, f"boot-{self.boot}")
        self.dirs.lock()
        self.dirs.open()
        self.state = HubState(topic_id=self.topic_ids.get, node_stop=self.dirs.node_stop.value)
        self.processes = [self.started(k) for k in range(PROCESSES)]
        for process in self.processes:
            process.logs.loss_is_reported()

    def started(self, k: int) -> Process:
        self.sessions += 1
        session = self.sessions
        self.state.begin(session)
        self.dirs.process_starts(k)
        channel = Channel(lambda question: self.dirs.answer(self.state, session, k, PROCESSES, question))
        logs = LogManager(
            self.fs,
            [FOLDER],
            ManualClock(NOW),
            CONFIG,
            boot_id=lambda: f"boot-{self.boot}",
            state_of=lambda folder: HubLogDirState(channel, folder),  # type: ignore[arg-type]
        )
        logs.lock()
        logs.claim("cluster-0123456789abcd", 1)
        logs.load(lambda tp, topic_id: LogConfig(), {}, removes_deleted=False)
        return Process(k, session, logs)

    # -- steps --------------------------------------------------------------------------------------

    def run(self, steps: int = STEPS) -> None:
        weights: dict[Callable[[Process, TopicPartition], None], int] = {
            self.request: 6, self.write: 8, self.sync: 2, self.begin_close: 4, self.end_close: 6, self.checkpoint: 2,
            self.delay_checkpoint: 2, self.run_late: 2, self.kill: 1, self.use_name_again: 1, self.cut_power: 1,
        }  # fmt: skip
        for _ in range(steps):
            (step,) = self.random.choices(list(weights), list(weights.values()))
            step(self.random.choice(self.processes), self.random.choice(PARTITIONS))

    def request(self, process: Process, tp: TopicPartition) -> None:
        if tp not in process.asked | process.held:
            process.asked.add(tp)
            self.deliver(self.state.request_holds(process.session, [tp], 1))

    def deliver(self, messages: Outgoing) -> None:
        alive = {each.session: each for each in self.processes}
        for session, message in messages:
            if isinstance(message, HoldsGranted) and message.granted:
                assert not self.dirs.granted(message.granted)
                for held in message.granted:
                    if self.random.random() < 0.5:
                        alive[session].logs.checkpoint()  # in the background, while the grant is on its way
                    self.open(alive[session], held.partition, ShutdownKind(held.stop), held.topic_id)

    def open(self, process: Process, tp: TopicPartition, stop: ShutdownKind, known: Uuid | None) -> None:
        others = [each.k for each in self.processes if each is not process and each.logs.get(tp) is not None]
        assert not others, f"{tp} is open in process {others} and is opened in {process.k}"
        process.asked.discard(tp)
        process.held.add(tp)
        stops = {tp: stop}
        expected = lambda _, topic_id: LogConfig() if topic_id in (known, None) else None  # noqa: E731
        process.logs.handover.end_opening(process.logs.handover.opening(stops, expected)(), stops)
        assert tp not in process.logs.damaged, str(process.logs.damaged.get(tp))
        assert known is not None
        log = process.logs.get(tp) or process.logs.create(tp, known, LogConfig())
        log.confirm_topic_id(known)  # as the replica manager does
        found = [value for _, value in read_all(log, upper=log.log_end_offset)]
        written = self.written[tp]
        if tp in self.lost_power:
            self.lost_power.discard(tp)
            assert len(found) >= self.synced[tp], f"{tp} has lost synced records"
            self.written[tp] = written = written[: len(found)]
        assert found == written
        if stop is ShutdownKind.CLEAN:
            assert log.high_watermark == self.marks[tp], f"{tp} has lost its checkpoint entries"

    def write(self, process: Process, tp: TopicPartition) -> None:
        log = process.logs.get(tp)
        if log is not None:
            value = b"%d" % self.random.randrange(1 << 30)
            append(log, batch(value))
            self.written[tp].append(value)

    def sync(self, process: Process, tp: TopicPartition) -> None:
        log = process.logs.get(tp)
        if log is not None:
            log.flush()
            self.synced[tp] = len(self.written[tp])

    def begin_close(self, process: Process, tp: TopicPartition) -> None:
        closing = process.logs.handover.begin_closing(tp)
        if closing is not None:
            process.closing[tp] = closing

    def end_close(self, process: Process, tp: TopicPartition) -> None:
        closing = process.closing.pop(tp, None)
        if closing is None:
            return
        if self.flushes_before_release:
            closing.job.run()
        for log_dir in process.logs.handover.end_closing([closing]):
            process.logs.checkpoint_step(log_dir)()
        self.synced[tp], self.marks[tp] = len(self.written[tp]), closing.log.high_watermark
        self.release(process, tp, are_closed=True)

    def release(self, process: Process, tp: TopicPartition, *, are_closed: bool) -> None:
        process.logs.handover.released(tp)
        process.held.discard(tp)
        self.deliver(self.state.release(process.session, [tp], are_closed=are_closed))

    def checkpoint(self, process: Process, tp: TopicPartition) -> None:
        process.logs.checkpoint()

    def delay_checkpoint(self, process: Process, tp: TopicPartition) -> None:
        process.late.append(process.logs.checkpoint_job_of(process.logs.dirs[0]))

    def run_late(self, process: Process, tp: TopicPartition) -> None:
        if process.late:
            process.late.pop(0).run()

    def kill(self, process: Process, tp: TopicPartition) -> None:
        process.logs.close(clean=False)
        self.processes.remove(process)
        self.deliver(self.state.end(process.session))
        self.processes.append(self.started(process.k))

    def use_name_again(self, process: Process, tp: TopicPartition) -> None:
        """The topic is deleted and created again; a process that has it open deletes its log."""
        is_closing = any(tp in each.closing for each in self.processes)
        if tp in self.lost_power or is_closing or not self.synced[tp]:
            return  # a folder whose partition.metadata was not synced may lose its id, and look like the new one
        self.topic_ids[tp] = self.new_id()
        self.written[tp], self.synced[tp], self.marks[tp] = [], 0, 0
        for each in self.processes:
            if each.logs.get(tp) is not None:
                each.logs.delete(tp)
                each.logs.checkpoint_step(each.logs.dirs[0])()
                self.release(each, tp, are_closed=False)
                break

    def cut_power(self, process: Process, tp: TopicPartition) -> None:
        for each in self.processes:
            each.logs.close(clean=False)
        self.fs = self.fs.crash(torn=self.random)
        self.lost_power = set(PARTITIONS)
        self.start()


class Channel:
    """NotesChannel without a socket."""

    def __init__(self, answer: Callable[[AboutLogDir], LogDirAnswer]) -> None:
        self._answer = answer

    def ask(self, question: AboutLogDir) -> LogDirAnswer:
        answer = self._answer(question)
        assert not answer.errno, answer.reason
        return answer


@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_opens_a_log_twice_or_loses_records(seed: int) -> None:
    Machine(seed).run()


def found(mutate: Callable[[Machine], None]) -> bool:
    """True if a run with the mutant fails."""
    for seed in range(60):
        machine = Machine(seed)
        mutate(machine)
        try:
            machine.run()
        except (AssertionError, KeyError):
            return True
    return False


def test_a_hold_that_is_granted_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    request = HubState.request_holds

    def early(state: HubState, session: int, partitions: list[TopicPartition], number: int) -> Outgoing:
        for each in partitions:
            state._holders.pop(each, None)
        return request(state, session, partitions, number)

    monkeypatch.setattr(HubState, "request_holds", early)
    assert found(lambda machine: None)


def test_a_release_before_the_flush_is_found() -> None:
    def mutate(machine: Machine) -> None:
        machine.flushes_before_release = False

    assert found(mutate)


def test_notes_of_a_process_that_holds_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HubState, "may_replace", lambda *_: True)
    assert found(lambda machine: None)


def test_entries_that_are_replaced_before_the_log_is_open_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HubState, "may_replace", HubState.is_held_by)
    assert found(lambda machine: None)


def test_a_waiting_session_that_is_not_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    end = HubState.end

    def forgetful(state: HubState, session: int) -> Outgoing:
        waiting = {tp: sessions.copy() for tp, sessions in state._waiting.items()}
        state._waiting = {}
        messages = end(state, session)
        state._waiting = waiting
        return messages + state._grant(list(waiting))

    monkeypatch.setattr(HubState, "end", forgetful)
    assert found(lambda machine: None)
