from __future__ import annotations

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from barnabas.replication.fetch_sessions import (
    EVICTION_AGE_S,
    EXPECTANT_WAIT_MS,
    EXPECTATION_S,
    MAX_WAIT_MS,
    FetchSessions,
)

BY_NAME, BY_ID = 12, 13


def wanting(
    *partitions: int, session: int = 0, epoch: int = 0, forget: tuple[int, ...] = (), replica: int = -1
) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(replica, 1),
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="orders",
                partitions=[
                    FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=1 << 20)
                    for p in partitions
                ],
            )
        ]
        if partitions
        else [],
        forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=list(forget))] if forget else [],
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(2, clock)


def test_a_full_fetch_with_epoch_0_gets_a_session(sessions: FetchSessions) -> None:
    session = sessions.open(wanting(0, 1), BY_NAME)
    assert session.id > 0
    assert session.full
    assert len(sessions) == 1


def test_a_fetch_with_epoch_minus_1_has_no_session_and_ends_the_one_it_names(sessions: FetchSessions) -> None:
    session = sessions.open(wanting(0), BY_NAME)
    single = sessions.open(wanting(0, session=session.id, epoch=-1), BY_NAME)
    assert single.id == 0
    assert len(sessions) == 0


def test_an_incremental_fetch_changes_adds_and_forgets(sessions: FetchSessions) -> None:
    session = sessions.open(wanting(0, 1, 2), BY_NAME)
    session.ready.clear()
    again = sessions.open(wanting(2, 3, session=session.id, epoch=1, forget=(0,)), BY_NAME)
    assert again is session
    assert not again.full
    assert [key[1] for key in again.entries] == [1, 2, 3]
    assert [entry.partition for entry in again.ready] == [2, 3]


def test_followers_are_answered_at_once_when_there_is_more_to_follow(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    session = sessions.open(wanting(0), BY_NAME)
    assert sessions.follower_fetches(session, 7) == MAX_WAIT_MS
    ended: list[bool] = []
    session.on_ready = lambda: ended.append(session.ends_now)
    sessions.expect([7, 8])
    assert ended == [True]
    assert sessions.follower_fetches(session, 7) == EXPECTANT_WAIT_MS, "it may hear of it after us"
    assert not session.ends_now
    clock.advance(int(EXPECTATION_S * 1000))
    assert sessions.follower_fetches(session, 7) == MAX_WAIT_MS


@pytest.mark.parametrize("epoch", [0x7FFFFFFF, 2, 3])
def test_an_epoch_that_is_not_the_next_one_is_refused(sessions: FetchSessions, epoch: int) -> None:
    session = sessions.open(wanting(0), BY_NAME)
    with pytest.raises(KafkaError) as error:
        sessions.open(wanting(session=session.id, epoch=epoch), BY_NAME)
    assert error.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused(sessions: FetchSessions) -> None:
    with pytest.raises(KafkaError) as error:
        sessions.open(wanting(session=77, epoch=1), BY_NAME)
    assert error.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_names_cannot_go_on_by_ids(sessions: FetchSessions) -> None:
    session = sessions.open(wanting(0), BY_NAME)
    with pytest.raises(KafkaError) as error:
        sessions.open(wanting(session=session.id, epoch=1), BY_ID)
    assert error.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_without_room_a_fetch_is_served_without_a_session_until_an_old_one_can_go(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    first = sessions.open(wanting(0), BY_NAME)
    sessions.open(wanting(0), BY_NAME)
    assert sessions.open(wanting(0), BY_NAME).id == 0
    clock.advance(int(EVICTION_AGE_S * 1000))
    assert sessions.open(wanting(0), BY_NAME).id > 0
    assert len(sessions) == 2
    with pytest.raises(KafkaError):
        sessions.open(wanting(session=first.id, epoch=1), BY_NAME)


def test_a_follower_gets_a_session_at_the_cost_of_a_consumer_and_keeps_it(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    consumers = [sessions.open(wanting(0), BY_NAME) for _ in range(2)]
    for replica in (7, 8, 9):
        followed = sessions.open(wanting(0, replica=replica), BY_NAME)
        sessions.follower_fetches(followed, replica)
        assert followed.id > 0
    assert not {session.id for session in sessions} & {session.id for session in consumers}
    clock.advance(int(EVICTION_AGE_S * 1000))
    assert sessions.open(wanting(0), BY_NAME).id == 0, "no consumer takes a follower's place"
    assert len(sessions) == 3


def test_restarted_follower_has_one_session(sessions: FetchSessions) -> None:
    for _ in range(3):
        sessions.follower_fetches(sessions.open(wanting(0, replica=7), BY_NAME), 7)
    assert len(sessions) == 1


def test_those_that_got_data_go_to_the_back(sessions: FetchSessions) -> None:
    session = sessions.open(wanting(0, 1, 2), BY_NAME)
    first = next(iter(session.ready))
    session.rotate([first])
    assert [entry.partition for entry in session.ready] == [1, 2, 0]


def test_a_session_is_not_opened_for_more_partitions_than_there_is_room_for(clock: ManualClock) -> None:
    sessions = FetchSessions(10, clock, max_partitions=5)
    assert sessions.open(wanting(0, 1, 2), BY_NAME).id > 0
    refused = sessions.open(wanting(0, 1, 2), BY_NAME)
    assert (refused.id, len(refused.entries)) == (0, 3)  # the fetch itself is served
    assert (sessions.partition_count, sessions.refused) == (3, 1)


def test_a_session_that_outgrows_the_room_ends_and_gives_it_back(clock: ManualClock) -> None:
    sessions = FetchSessions(10, clock, max_partitions=5)
    session = sessions.open(wanting(0, 1, 2), BY_NAME)
    with pytest.raises(KafkaError) as refusal:
        sessions.open(wanting(*range(3, 9), session=session.id, epoch=1), BY_NAME)
    assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)
    assert sessions.open(wanting(0, 1, 2), BY_NAME).id > 0


def test_forgotten_partitions_make_room_for_others(clock: ManualClock) -> None:
    sessions = FetchSessions(10, clock, max_partitions=3)
    session = sessions.open(wanting(0, 1, 2), BY_NAME)
    sessions.open(wanting(session=session.id, epoch=1, forget=(0, 1)), BY_NAME)
    assert sessions.partition_count == 1
    sessions.open(wanting(3, 4, session=session.id, epoch=2), BY_NAME)
    assert sessions.partition_count == 3


def test_follower_has_one_session_for_any_number_of_partitions(clock: ManualClock) -> None:
    sessions = FetchSessions(10, clock, max_partitions=2)
    assert sessions.open(wanting(0, 1, 2, replica=2), BY_NAME).id > 0
