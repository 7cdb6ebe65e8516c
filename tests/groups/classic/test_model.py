"""Random sequences of joins, syncs, heartbeats, commits, leaves, silence and restarts.

The model is what clients were told. From that alone they must agree with each other: on who is in a generation,
who leads it, who was assigned what, and which commit was the last.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from tests.groups.simulation import GROUP, Answer, Simulation
from tests.support.groups.conversations import join_request

SESSION_MS = 10_000
REBALANCE_MS = 30_000
TP = TopicPartition("orders", 0)
MAX_CLIENTS = 6
DISK_FULL = (ErrorCode.NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR)


@dataclass
class Consumer:
    """A client, as far as it knows."""

    instance: str | None
    protocols: dict[str, bytes]
    member_id: str = ""
    generation: int = -1
    joining: Answer | None = None
    syncing: Answer | None = None
    is_dead: bool = False
    is_silent: bool = False


@dataclass
class Generation:
    """Responses to clients about one generation."""

    leader: str
    protocol: str
    joined: set[str] = field(default_factory=set)
    listed: set[str] | None = None
    handed_in: list[dict[str, bytes]] = field(default_factory=list)


class GroupOfClients(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.simulation = Simulation(offsets_retention_check_ms=10**9)
        self.clients: list[Consumer] = []
        self.generations: dict[int, Generation] = {}
        self.last_commit: int | None = None
        self.next_offset = 0

    # -- what clients do ----------------------------------------------------------------------------

    @rule(
        instance=st.sampled_from([None, None, "one", "two"]),
        protocols=st.sampled_from([{"a": b"1", "b": b"2"}, {"b": b"3"}, {"b": b"4", "a": b"5"}]),
    )
    def somebody_starts(self, instance: str | None, protocols: dict[str, bytes]) -> None:
        if sum(not client.is_dead for client in self.clients) >= MAX_CLIENTS:
            return
        client = Consumer(instance, protocols)
        for other in self.clients:  # a process that takes over an instance id
            if instance is not None and other.instance == instance:
                other.is_dead = True
        self.clients.append(client)
        self._join(client)

    @rule(data=st.data())
    def somebody_joins_again(self, data: st.DataObject) -> None:
        if client := self._pick(data):
            self._join(client)

    @rule(data=st.data())
    def somebody_syncs(self, data: st.DataObject) -> None:
        client = self._pick(data)
        if client is None or client.generation < 0 or client.syncing is not None:
            return
        known = self.generations[client.generation]
        assignments: dict[str, bytes] = {}
        if known.leader == client.member_id:
            assignments = {member: f"{member}@{client.generation}".encode() for member in known.listed or ()}
            known.handed_in.append(assignments)
        client.syncing = self.simulation.sync(client.member_id, client.generation, assignments)
        self._hear()

    @rule(data=st.data())
    def somebody_leaves(self, data: st.DataObject) -> None:
        if client := self._pick(data):
            client.is_dead = True
            if client.member_id:
                self.simulation.leave(client.member_id)
            self._hear()

    @rule(data=st.data())
    def somebody_falls_silent(self, data: st.DataObject) -> None:
        if client := self._pick(data):
            client.is_silent = True

    @rule(data=st.data())
    def somebody_commits(self, data: st.DataObject) -> None:
        client = self._pick(data)
        if client is None or client.generation < 0:
            return
        self.next_offset += 1
        error = self.simulation.commit(self.next_offset, client.member_id, client.generation)
        if error is ErrorCode.NONE:
            assert client.generation == max(self.generations), "a commit of an old generation was accepted"
            self.last_commit = self.next_offset

    @rule()
    def a_stranger_commits(self) -> None:
        self.next_offset += 1
        error = self.simulation.commit(self.next_offset)
        has_members = GROUP in self.simulation.shard.groups and bool(self.simulation.group.members)
        assert error is ErrorCode.NONE or has_members or error in DISK_FULL
        if error is ErrorCode.NONE:
            self.last_commit = self.next_offset

    # -- what happens to them -----------------------------------------------------------------------

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self._heartbeats()
            self.simulation.clock.advance(1000)
            self._hear()

    @rule()
    def the_coordinator_moves(self) -> None:
        """A generation that was never written down did not happen; its number is given again."""
        self.simulation.restart()
        self._hear()
        written = self.simulation.group.generation if GROUP in self.simulation.shard.groups else 0
        self.generations = {
            number: response for number, response in self.generations.items() if number <= written
        }
        for client in self.clients:
            if client.generation > written:
                self._told(client, self.simulation.heartbeat(client.member_id, client.generation))

    @rule()
    def the_disk_runs_full(self) -> None:
        full = OSError(errno.ENOSPC, "no space left")
        self.simulation.files.fail_at(1, full, "append", forever=True)

    @rule()
    def the_disk_has_room_again(self) -> None:
        self.simulation.files.heal()

    def _pick(self, data: st.DataObject) -> Consumer | None:
        free = [
            client
            for client in self.clients
            if not (client.is_dead or client.is_silent) and client.joining is None
        ]
        return data.draw(st.sampled_from(free)) if free else None

    def _join(self, client: Consumer) -> None:
        client.generation, client.syncing = -1, None
        client.joining = self.simulation.join(
            join_request(
                GROUP,
                client.member_id,
                session=SESSION_MS,
                rebalance=REBALANCE_MS,
                instance=client.instance,
                protocols=client.protocols,
            )
        )
        self._hear()

    def _heartbeats(self) -> None:
        for client in self.clients:
            if client.is_dead or client.is_silent or client.generation < 0:
                continue
            error = self.simulation.heartbeat(client.member_id, client.generation, client.instance)
            if error is ErrorCode.NONE:
                assert client.generation == max(self.generations)
            elif error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._told(client, error)

    def _told(self, client: Consumer, error: ErrorCode) -> None:
        """React as the Java client does."""
        client.generation, client.syncing = -1, None
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            client.is_dead = True

    # -- what they hear -----------------------------------------------------------------------------

    def _hear(self) -> None:
        progress = True
        while progress:
            progress = False
            for client in self.clients:
                if client.joining is not None and client.joining.response is not None:
                    answer, client.joining = client.joining.response, None
                    progress = True
                    self._hear_join(client, answer)
                if client.syncing is not None and client.syncing.response is not None:
                    answer, client.syncing = client.syncing.response, None
                    self._hear_sync(client, answer)

    def _hear_join(self, client: Consumer, answer: Any) -> None:
        error = ErrorCode(answer.error_code)
        if client.is_dead:
            return
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self._join(client)
        elif error is not ErrorCode.NONE:
            self._told(client, error)
        else:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            self._check_generation(client, answer)

    def _check_generation(self, client: Consumer, answer: Any) -> None:
        number = answer.generation_id
        assert number >= max(self.generations, default=0), "generations never go back"
        known = self.generations.setdefault(number, Generation(answer.leader, answer.protocol_name))
        assert known.protocol == answer.protocol_name
        assert client.protocols[answer.protocol_name] is not None
        if answer.leader != known.leader:  # only a static leader changes its id within a generation
            assert client.instance is not None
            known.leader = answer.leader
        known.joined.add(client.member_id)
        if answer.members:
            assert answer.leader == client.member_id
            known.listed = {member.member_id for member in answer.members}
            for member in answer.members:
                assert member.metadata in {one.protocols.get(known.protocol) for one in self.clients}

    def _hear_sync(self, client: Consumer, answer: Any) -> None:
        error = ErrorCode(answer.error_code)
        if client.is_dead:
            return
        if error is not ErrorCode.NONE:
            self._told(client, error)
            return
        handed_in = self.generations[client.generation].handed_in
        assert handed_in, "an assignment that nobody made"
        assigned = {assignments.get(client.member_id, b"") for assignments in handed_in}
        assert answer.assignment in assigned or client.instance is not None

    # -- what must always hold ----------------------------------------------------------------------

    @invariant()
    def a_replay_of_the_log_gives_the_same_state(self) -> None:
        self.simulation.check_that_replay_equals_memory()

    @invariant()
    def the_last_successful_commit_counts(self) -> None:
        committed = self.simulation.offsets().get(TP)
        assert (committed.offset if committed else None) == self.last_commit

    def teardown(self) -> None:
        """All requests are answered after all timeouts."""
        self.simulation.files.heal()
        for client in self.clients:
            client.is_silent = True
        self.simulation.clock.advance(20 * 60 * 1000)
        for client in self.clients:
            assert client.joining is None or client.joining.response is not None
            assert client.syncing is None or client.syncing.response is not None
        if GROUP in self.simulation.shard.groups:
            assert not self.simulation.group.members
        self.simulation.check_that_replay_equals_memory()


GroupOfClients.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestGroupOfClients = GroupOfClients.TestCase
