"""The coordinator around the state machine: completion, retries, waiting, requests to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.broker.local_requests import answer
from barnabas.client.connection import BrokerConnection
from barnabas.cluster.peers import LocalPeers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.messages.transactions import EndTxnRequest
from barnabas.testing import EmbeddedBroker
from barnabas.transactions.marker_rounds import MarkerRound
from barnabas.transactions.markers import Marker
from barnabas.transactions.transaction import V2, Transaction
from tests.clients.test_transactions_wire import V1_PRODUCE, V2_PRODUCE, Wire, commit, committed
from tests.support.waiting import until

E = ErrorCode
T = TypeVar("T")
NAME = "payments"
TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)
ELSEWHERE = 99  # a broker that is only known to `peers`


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"barnabas.acks.all.fsync": "auto"}, data_dir=tmp_path / "data") as broker:
        broker.create_topic(TOPIC, partitions=2)
        yield broker


def on_loop(embedded: EmbeddedBroker, work: Callable[[], T]) -> T:
    """Do something in the broker's own thread."""

    async def run() -> T:
        return work()

    loop: Any = embedded.broker.loop
    return asyncio.run_coroutine_threadsafe(run(), loop).result(60)


def play(embedded: EmbeddedBroker, scenario: Callable[[Wire], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        connection = await BrokerConnection.connect("127.0.0.1", embedded.port, "wire")
        try:
            wire = Wire(connection, TOPIC, NAME)
            await wire.find(NAME, 1)
            await scenario(wire)
        finally:
            connection.close()

    asyncio.run(run())


def open_transaction(embedded: EmbeddedBroker) -> ProducerIdAndEpoch:
    """A V2 transaction with a record in each partition."""
    instance = ProducerIdAndEpoch(-1, -1)

    async def scenario(wire: Wire) -> None:
        nonlocal instance
        await wire.init()
        for partition in (0, 1):
            assert await wire.produce(V2_PRODUCE, partition, sequence=0) == E.NONE
        instance = ProducerIdAndEpoch(wire.producer_id, wire.epoch)

    play(embedded, scenario)
    return instance


def transaction(embedded: EmbeddedBroker) -> Transaction:
    shards = on_loop(embedded, lambda: list(embedded.broker.coordinators.transactions.runtime.shards()))
    found = next((one for _, shard in shards if (one := shard.get(NAME)) is not None), None)
    assert found is not None
    return found


def stable(embedded: EmbeddedBroker, partition: int = 0) -> bool:
    """Is nothing of a transaction open in the partition?"""

    def look() -> bool:
        found = embedded.broker.replicas.find(TOPIC, partition)
        return found is not None and found.log.last_stable_offset == found.log.log_end_offset

    return on_loop(embedded, look)


def decide(embedded: EmbeddedBroker, instance: ProducerIdAndEpoch, *, committed: bool) -> None:
    """Write the decision and nothing more, as if the broker had died right after it."""
    runtime = embedded.broker.coordinators.transactions.runtime

    def write() -> None:
        runtime.write(
            0,
            lambda shard: shard.end(
                NAME, instance, committed=committed, version=V2, now_ms=0, new_producer_id=lambda: -1
            ),
            lambda result: None,
        )

    on_loop(embedded, write)


@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_transaction_is_finished_after_a_restart(embedded: EmbeddedBroker, committed: bool) -> None:
    decide(embedded, open_transaction(embedded), committed=committed)
    assert not stable(embedded)
    embedded.stop()
    embedded.start()
    until(lambda: transaction(embedded).is_at_rest, "completion")
    assert transaction(embedded).state.label == ("CompleteCommit" if committed else "CompleteAbort")
    assert transaction(embedded).epoch == 1
    for partition in (0, 1):
        assert stable(embedded, partition)


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
def test_every_other_state_is_the_same_after_a_restart(embedded: EmbeddedBroker, state: str) -> None:
    async def scenario(wire: Wire) -> None:
        await wire.init()
        if state != "Empty":
            await wire.produce(V2_PRODUCE)
        if state.startswith("Complete"):
            await wire.end(state == "CompleteCommit", 5)

    play(embedded, scenario)
    before = transaction(embedded)
    assert before.state.label == state
    embedded.stop()
    embedded.start()
    until(lambda: not embedded.broker.coordinators.transactions.runtime.is_loading, "loading")
    assert transaction(embedded) == before


def write_marker(embedded: EmbeddedBroker, tp: TopicPartition, marker: Marker) -> ErrorCode:
    codes: list[ErrorCode] = []
    on_loop(embedded, lambda: embedded.broker.coordinators.markers.write(tp, marker, codes.append))
    until(lambda: codes, "an answer to the marker")
    return codes[0]


def test_late_markers_do_not_end_pending_offsets_after_a_restart_either(embedded: EmbeddedBroker) -> None:
    late: list[Marker] = []

    async def begin_next(wire: Wire) -> None:
        await wire.find(wire.group, 0)
        await wire.init()
        for offset in (10, 20):
            assert await commit(wire, wire.group, offset, 5) == E.NONE
            if offset == 10:
                assert await wire.end(True, 5) == E.NONE
        late.append(Marker(wire.producer_id, wire.epoch, committed=True, coordinator_epoch=0, version=V2))

    async def check(wire: Wire) -> None:
        await wire.find(wire.group, 0)
        assert await committed(wire, wire.group) == (10, E.NONE)
        assert await committed(wire, wire.group, stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)

    play(embedded, begin_next)
    embedded.restart()
    until(lambda: not embedded.broker.coordinators.groups.runtime.is_loading, "loading")
    tp = TopicPartition(CONSUMER_OFFSETS, 0)
    assert write_marker(embedded, tp, late[0]) == E.INVALID_PRODUCER_EPOCH
    play(embedded, check)
    next_marker = late[0]._replace(producer_epoch=late[0].producer_epoch + 1)
    assert write_marker(embedded, tp, next_marker) == E.NONE


def test_a_broker_that_does_not_lead_does_not_judge_markers(embedded: EmbeddedBroker) -> None:
    """INVALID_PRODUCER_EPOCH would tell the coordinator that the partition needs no marker."""
    instance = open_transaction(embedded)
    partition = embedded.broker.replicas.find(*TP)
    assert partition is not None
    on_loop(embedded, partition.fence)
    marker = Marker(*instance, committed=True, coordinator_epoch=0, version=V2)
    assert write_marker(embedded, TP, marker) == E.NOT_LEADER_OR_FOLLOWER
    on_loop(embedded, partition.unfence)
    assert write_marker(embedded, TP, marker) == E.INVALID_PRODUCER_EPOCH


def test_a_marker_is_tried_again_until_its_partition_has_a_leader(embedded: EmbeddedBroker) -> None:
    instance = open_transaction(embedded)
    partition = embedded.broker.replicas.find(TOPIC, 1)
    assert partition is not None
    on_loop(embedded, partition.fence)

    async def scenario(wire: Wire) -> None:
        request = EndTxnRequest(NAME, *instance, committed=True)
        assert (await wire.send(request, 5)).error_code == E.NONE  # the decision counts, not the markers
        assert (await wire.send(request, 5)).error_code == E.CONCURRENT_TRANSACTIONS

    play(embedded, scenario)
    until(lambda: stable(embedded, 0), "the marker of the other partition")
    assert transaction(embedded).is_decided
    on_loop(embedded, partition.unfence)
    until(lambda: transaction(embedded).is_at_rest, "completion")
    assert stable(embedded, 1)


def test_a_deleted_topic_does_not_hold_up_a_commit(embedded: EmbeddedBroker) -> None:
    instance = open_transaction(embedded)

    async def scenario(wire: Wire) -> None:
        deleted = await wire.send(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5000), 5)
        assert deleted.responses[0].error_code == E.NONE
        assert (await wire.send(EndTxnRequest(NAME, *instance, committed=True), 5)).error_code == E.NONE

    play(embedded, scenario)
    until(lambda: transaction(embedded).is_at_rest, "completion")


def test_waiting_batches_keep_their_records_and_their_order(embedded: EmbeddedBroker) -> None:
    """With fsync the first batch of a transaction waits for the coordinator's disk; others arrive meanwhile."""

    async def scenario(wire: Wire) -> None:
        await wire.init()
        for _ in range(3):
            codes = await asyncio.gather(
                *[wire.produce(V2_PRODUCE, sequence=number, value=b"%d" % number) for number in range(20)]
            )
            assert codes == [E.NONE] * 20
            await wire.end(True, 5)

    play(embedded, scenario)
    found = embedded.broker.replicas.find(TOPIC, 0)
    assert found is not None
    assert found.log.log_end_offset == 3 * 21


def test_a_batch_does_not_join_a_transaction_that_ended_while_it_waited(embedded: EmbeddedBroker) -> None:
    broker = embedded.broker
    held: list[Callable[[ErrorCode], None]] = []
    flush = broker.flusher.when_flushed

    def hold_state(log: Any, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        if log.topic_partition.topic == TRANSACTION_STATE:
            held.append(callback)
        else:
            flush(log, offset, callback)

    async def scenario(wire: Wire) -> None:
        await wire.init()
        on_loop(embedded, lambda: setattr(broker.flusher, "when_flushed", hold_state))
        batch = asyncio.create_task(wire.produce(V2_PRODUCE))
        await asyncio.to_thread(until, lambda: held, "the question to the coordinator")
        marker = Marker(wire.producer_id, wire.epoch, committed=False, coordinator_epoch=0, version=0)
        on_loop(embedded, lambda: broker.coordinators.markers.write(TP, marker, lambda error: None))
        on_loop(embedded, lambda: [callback(E.NONE) for callback in held])
        assert await batch == E.INVALID_TXN_STATE

    play(embedded, scenario)


@pytest.mark.parametrize("write", ["batch", "offsets"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known producer", "unknown producer"])
def test_the_marker_of_the_previous_transaction_may_come_while_a_write_waits(
    embedded: EmbeddedBroker, write: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A V2 producer begins the next transaction as soon as the last one is decided.

    The partition of a refused write belongs to the transaction, and does not know the producer.
    """
    coordinators = embedded.broker.coordinators
    held: list[tuple[TopicPartition, Marker, Callable[[ErrorCode], None]]] = []
    write_marker, wait = coordinators.markers.write, coordinators.transactions._completion.when_complete

    def wait_for_held(name: str, again: Callable[[], None]) -> None:
        wait(name, again)
        for one in held:
            write_marker(*one)

    async def write_once(wire: Wire) -> int:
        if write == "batch":
            return await wire.produce(V2_PRODUCE)
        return await commit(wire, wire.group, 1, 5)

    async def write_in_vain(wire: Wire) -> None:
        if write == "batch":
            assert await wire.produce(V2_PRODUCE, value=bytes(2_000_000)) == E.MESSAGE_TOO_LARGE
        else:
            stale = {"generation_id_or_member_epoch": 3, "member_id": "x"}
            assert await commit(wire, wire.group, 1, 5, **stale) == E.ILLEGAL_GENERATION

    async def scenario(wire: Wire) -> None:
        await wire.find(wire.group, 0)
        await wire.init()
        if is_known:
            assert await write_once(wire) == E.NONE
        else:
            await write_in_vain(wire)
        monkeypatch.setattr(coordinators.markers, "write", lambda *one: held.append(one))
        monkeypatch.setattr(coordinators.transactions._completion, "when_complete", wait_for_held)
        ended = await wire.send(EndTxnRequest(NAME, wire.producer_id, wire.epoch, committed=is_known), 5)
        wire.epoch, wire.sequence = ended.producer_epoch, 0
        assert await write_once(wire) == E.NONE
        assert held

    play(embedded, scenario)


def test_a_batch_does_not_overtake_one_that_must_be_sent_again(embedded: EmbeddedBroker) -> None:
    transactions = embedded.broker.coordinators.transactions

    async def scenario(wire: Wire) -> None:
        await wire.init()
        await wire.add(0)
        find = transactions.leader_of
        on_loop(embedded, lambda: setattr(transactions, "leader_of", lambda name: -1))
        assert await wire.produce(V1_PRODUCE, sequence=0) == E.NOT_ENOUGH_REPLICAS
        on_loop(embedded, lambda: setattr(transactions, "leader_of", find))
        assert await wire.produce(V1_PRODUCE, sequence=1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await wire.produce(V1_PRODUCE, sequence=0) == E.NONE
        assert await wire.produce(V1_PRODUCE, sequence=1) == E.NONE

    play(embedded, scenario)


@pytest.mark.parametrize("version", [V1_PRODUCE, V2_PRODUCE])
def test_coordinator_on_another_broker_is_queried_through_peers(
    embedded: EmbeddedBroker, version: int
) -> None:
    broker = embedded.broker

    def move_away() -> None:
        broker.coordinators.channel._peers = LocalPeers(ELSEWHERE, lambda message: answer(broker, message))
        setattr(broker.coordinators.transactions, "leader_of", lambda name: ELSEWHERE)  # noqa: B010 - a method

    async def scenario(wire: Wire) -> None:
        await wire.init()
        on_loop(embedded, move_away)
        if version == V1_PRODUCE:
            assert await wire.produce(version) == E.TRANSACTION_ABORTABLE
            await wire.add(0)
        assert await wire.produce(version) == E.NONE
        assert await wire.produce(version, epoch=7) == E.INVALID_PRODUCER_EPOCH
        on_loop(
            embedded,
            lambda: setattr(
                broker.coordinators.channel, "_peers", LocalPeers(1, lambda message: answer(broker, message))
            ),
        )
        assert await wire.produce(version, partition=1) == E.NOT_ENOUGH_REPLICAS

    play(embedded, scenario)


@pytest.mark.parametrize("version", [V1_PRODUCE, V2_PRODUCE])
def test_a_batch_waits_for_a_coordinator_that_moves(embedded: EmbeddedBroker, version: int) -> None:
    transactions = embedded.broker.coordinators.transactions
    here = transactions.leader_of
    missed = 0

    def moving(name: str) -> int:
        nonlocal missed
        missed += 1
        if missed < 5:
            raise KafkaError(E.COORDINATOR_NOT_AVAILABLE, "on its way")
        return here(name)

    async def scenario(wire: Wire) -> None:
        await wire.init()
        if version == V1_PRODUCE:
            await wire.add(0)
        on_loop(embedded, lambda: setattr(transactions, "leader_of", moving))
        assert await wire.produce(version) == E.NONE
        assert missed == 5

    play(embedded, scenario)


@pytest.mark.parametrize("version", [V1_PRODUCE, V2_PRODUCE])
def test_fenced_broker_sends_producers_to_the_new_leader(
    embedded: EmbeddedBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot reach the coordinator either, but a client with only that error would retry indefinitely."""
    broker = embedded.broker

    def fence() -> None:
        broker._view.is_fenced = True
        broker.replicas.fence()
        broker.coordinators.follow()

    async def scenario(wire: Wire) -> None:
        await wire.find(wire.group, 0)
        await wire.init()
        monkeypatch.setattr(wire, "send", wire.connection.send)  # which does not try again
        on_loop(embedded, fence)
        assert await wire.produce(version) == E.NOT_LEADER_OR_FOLLOWER
        commit_version = 5 if version == V2_PRODUCE else 4
        assert await commit(wire, wire.group, 1, commit_version) == E.NOT_COORDINATOR

    play(embedded, scenario)


def test_partitions_of_other_brokers_get_their_markers_through_peers(
    embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = embedded.broker
    instance = open_transaction(embedded)
    monkeypatch.setattr(MarkerRound, "_leader", lambda self, tp: ELSEWHERE)

    async def scenario(wire: Wire) -> None:
        assert (await wire.send(EndTxnRequest(NAME, *instance, committed=False), 5)).error_code == E.NONE

    play(embedded, scenario)  # not there yet
    assert transaction(embedded).is_decided
    on_loop(
        embedded,
        lambda: setattr(
            broker.coordinators.channel,
            "_peers",
            LocalPeers(ELSEWHERE, lambda message: answer(broker, message)),
        ),
    )
    until(lambda: transaction(embedded).is_at_rest, "completion")
    assert stable(embedded)


def test_a_marker_that_is_not_written_leaves_no_producer(
    embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a leader knows producers that its followers do not."""
    partition = embedded.broker.replicas.find(*TP)
    assert partition is not None

    def refuse(*_: Any) -> None:
        raise KafkaError(E.NOT_ENOUGH_REPLICAS, "too few replicas are in sync")

    monkeypatch.setattr(type(partition), "append", refuse)
    marker = Marker(7, 1, committed=False, coordinator_epoch=0, version=V2)
    assert write_marker(embedded, TP, marker) == E.NOT_ENOUGH_REPLICAS
    assert partition.log.producers.get(7) is None
