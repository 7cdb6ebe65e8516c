import pytest

from barnabas.cluster.deltas import ConfigsChanged, apply
from barnabas.cluster.image import RECOVERED, RECOVERING, ConfigResourceType, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, new_uuid
from barnabas.controller.brokers import fence
from barnabas.controller.elections import elect_leaders
from barnabas.controller.isr import ANY_EPOCH, ProposedIsr, alter_isr
from barnabas.controller.partitions import Election
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

T0 = TopicPartition("t", 0)
LED_BY_SECOND = PartitionState((1, 2), (1, 2), 2, 3, 3)


def code(result: object) -> ErrorCode | None:
    return result.code if isinstance(result, KafkaError) else None


# -- ElectLeaders


def test_the_preferred_leader_takes_over() -> None:
    image = with_topic(cluster_of(2), "t", LED_BY_SECOND)
    decided = elect_leaders(image, [T0], Election.PREFERRED, POLICY)
    assert decided[1] == {T0: None}
    state = after(image, decided).topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch) == (1, 4)


def test_all_partitions_are_elected_and_those_in_order_not_mentioned() -> None:
    image = with_topic(cluster_of(2), "t", LED_BY_SECOND, PartitionState((1, 2), (1, 2), 1))
    decided = elect_leaders(image, None, Election.PREFERRED, POLICY)
    assert decided[1] == {T0: None}


def test_a_preferred_leader_that_is_down_is_not_available() -> None:
    image = with_topic(cluster_of(2), "t", LED_BY_SECOND)
    image = after(image, fence(image, 1, POLICY))
    deltas, results = elect_leaders(image, [T0], Election.PREFERRED, POLICY)
    assert deltas == []
    assert code(results[T0]) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_unclean_election_needs_a_live_replica() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1,), 1))
    image = after(image, fence(image, 1, POLICY))
    decided = elect_leaders(image, [T0], Election.UNCLEAN, POLICY)
    assert after(image, decided).topics["t"].partitions[0].leader == 2
    image = after(image, fence(image, 2, POLICY))
    deltas, results = elect_leaders(image, [T0], Election.UNCLEAN, POLICY)
    assert deltas == []
    assert code(results[T0]) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_an_unclean_election_is_not_needed_while_there_is_a_leader() -> None:
    image = with_topic(cluster_of(2), "t", LED_BY_SECOND)
    _, results = elect_leaders(image, [T0], Election.UNCLEAN, POLICY)
    assert code(results[T0]) is ErrorCode.ELECTION_NOT_NEEDED


# -- AlterPartition


def test_a_leader_changes_its_isr() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1,), 1, 3, 7))
    members = [(1, image.brokers[1].epoch), (2, ANY_EPOCH)]
    proposal = ProposedIsr(image.topics["t"].topic_id, 0, 3, 7, members)
    decided = alter_isr(image, 1, image.brokers[1].epoch, [proposal], POLICY)
    state = after(image, decided).topics["t"].partitions[0]
    assert decided[1] == [state]
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 2), 3, 8)


def test_a_proposal_that_does_not_fit_the_state_is_refused_with_kafkas_code() -> None:
    image = with_topic(cluster_of(3), "t", PartitionState((1, 2), (1,), 1, 3, 7))
    image = after(image, fence(image, 3, POLICY))
    topic_id = image.topics["t"].topic_id
    stale = image.brokers[2].epoch - 1
    cases = [
        (1, ProposedIsr(new_uuid(), 0, 3, 7, [(1, -1)]), ErrorCode.UNKNOWN_TOPIC_ID),
        (1, ProposedIsr(topic_id, 9, 3, 7, [(1, -1)]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ProposedIsr(topic_id, 0, 4, 7, [(1, -1)]), ErrorCode.NOT_CONTROLLER),
        (1, ProposedIsr(topic_id, 0, 3, 8, [(1, -1)]), ErrorCode.NOT_CONTROLLER),
        (1, ProposedIsr(topic_id, 0, 2, 7, [(1, -1)]), ErrorCode.FENCED_LEADER_EPOCH),
        (1, ProposedIsr(topic_id, 0, 3, 6, [(1, -1)]), ErrorCode.INVALID_UPDATE_VERSION),
        (2, ProposedIsr(topic_id, 0, 3, 7, [(1, -1)]), ErrorCode.INVALID_REQUEST),
        (1, ProposedIsr(topic_id, 0, 3, 7, [(2, -1)]), ErrorCode.INVALID_REQUEST),
        (1, ProposedIsr(topic_id, 0, 3, 7, [(1, -1), (3, -1)]), ErrorCode.INVALID_REQUEST),
        (1, ProposedIsr(topic_id, 0, 3, 7, [(1, -1), (1, -1)]), ErrorCode.INVALID_REQUEST),
        (1, ProposedIsr(topic_id, 0, 3, 7, [(1, -1), (2, stale)]), ErrorCode.INELIGIBLE_REPLICA),
    ]
    for broker_id, proposal, expected in cases:
        deltas, results = alter_isr(image, broker_id, image.brokers[broker_id].epoch, [proposal], POLICY)
        assert deltas == []
        assert [code(result) for result in results] == [expected]


@pytest.mark.parametrize(("tiered", "leader"), [("false", 2), ("true", -1)])
def test_an_unclean_leader_of_a_tiered_topic_is_never_elected_by_itself(tiered: str, leader: int) -> None:
    """It would write below the tiered end."""
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1,), 1))
    settings: dict[str, str | None] = {
        "unclean.leader.election.enable": "true",
        "remote.storage.enable": tiered,
    }
    image = apply(image, [ConfigsChanged(ConfigResourceType.TOPIC, "t", settings)])
    image = after(image, fence(image, 1, POLICY))
    assert image.topics["t"].partitions[0].leader == leader
    decided = elect_leaders(image, [T0], Election.UNCLEAN, POLICY)
    assert after(image, decided).topics["t"].partitions[0].leader == 2


def test_an_uncleanly_elected_leader_is_recovering_until_it_asks_for_an_isr() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1,), 1))
    image = after(image, fence(image, 1, POLICY))
    image = after(image, elect_leaders(image, [T0], Election.UNCLEAN, POLICY))
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.leader_recovery_state) == (2, RECOVERING)
    topic_id, epoch = image.topics["t"].topic_id, image.brokers[2].epoch
    same = ProposedIsr(topic_id, 0, state.leader_epoch, state.partition_epoch, [(2, ANY_EPOCH)])
    image = after(image, alter_isr(image, 2, epoch, [same], POLICY))
    now = image.topics["t"].partitions[0]
    assert (now.isr, now.leader_recovery_state) == ((2,), RECOVERED)
    assert (now.leader_epoch, now.partition_epoch) == (state.leader_epoch, state.partition_epoch + 1)


def test_a_clean_leader_has_nothing_to_recover() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1, 2), 1))
    image = after(image, fence(image, 1, POLICY))
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.leader_recovery_state) == (2, RECOVERED)
