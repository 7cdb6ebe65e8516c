import pytest

from barnabas.cluster.image import NO_LEADER, MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.brokers import (
    PRODUCER_ID_BLOCK_SIZE,
    Registration,
    allocate_producer_ids,
    begin_shutdown,
    create_cluster,
    fence,
    register,
    unfence,
    unregister,
)
from tests.support.builders.images import POLICY, after, cluster_of, with_topic


def restarted(image: MetadataImage, broker_id: int, clean: bool = True) -> MetadataImage:
    return after(image, register(image, Registration(broker_id, clean=clean), POLICY))


def test_a_new_cluster_gets_its_id_and_an_existing_one_keeps_it() -> None:
    image = after(cluster_of(1), create_cluster(cluster_of(1), "first", {"group.version": 1}))
    assert (image.cluster_id, image.features) == ("first", {"group.version": 1})
    assert create_cluster(image, "second", {}) == ([], "first")


def test_every_life_of_a_broker_has_a_greater_epoch() -> None:
    image = cluster_of(2)
    epoch = image.brokers[1].epoch
    assert restarted(image, 1).brokers[1].epoch > epoch


def test_a_registration_with_an_old_epoch_is_a_second_broker_with_the_same_id() -> None:
    image = cluster_of(1)
    with pytest.raises(KafkaError) as caught:
        register(image, Registration(1, epoch=image.brokers[1].epoch), POLICY)
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_alone_leads_again_with_a_new_leader_epoch(clean: bool) -> None:
    image = with_topic(cluster_of(1), "t", PartitionState((1,), (1,), 1, 3, 4))
    partition = restarted(image, 1, clean).topics["t"].partitions[0]
    assert partition == PartitionState((1,), (1,), 1, 4, 5)


def test_broker_that_lost_records_does_not_lead_replicas_that_have_them() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1, 2), 1))
    assert restarted(image, 1, clean=True).topics["t"].partitions[0].leader == 1
    partition = restarted(image, 1, clean=False).topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)


def test_a_registration_touches_only_partitions_of_that_broker() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((2,), (2,), 2), PartitionState((1,), (1,), 1))
    states = restarted(image, 1).topics["t"].partitions
    assert [state.leader_epoch for state in states] == [0, 1]


def test_a_fenced_broker_leaves_every_isr_and_others_lead() -> None:
    image = with_topic(
        cluster_of(3), "t", PartitionState((1, 2), (1, 2), 1), PartitionState((2, 1), (2, 1), 2)
    )
    image = after(image, fence(image, 1, POLICY))
    assert image.brokers[1].fenced
    assert [(state.leader, state.isr) for state in image.topics["t"].partitions] == [(2, (2,)), (2, (2,))]


def test_returning_broker_leads_partitions_without_a_leader() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1,), (1,), 1), PartitionState((2,), (2,), 2))
    image = after(image, fence(image, 1, POLICY))
    assert image.topics["t"].partitions[0].leader == NO_LEADER
    image = after(image, unfence(image, 1, POLICY))
    assert [state.leader for state in image.topics["t"].partitions] == [1, 2]
    assert not image.brokers[1].fenced


def test_stopping_broker_hands_over_its_partitions() -> None:
    image = with_topic(cluster_of(2), "t", PartitionState((1, 2), (1, 2), 1), PartitionState((1,), (1,), 1))
    decided = begin_shutdown(image, 1, POLICY)
    assert decided[1] == 1, "one partition has no heir"
    image = after(image, decided)
    assert [state.leader for state in image.topics["t"].partitions] == [2, 1]
    assert image.brokers[1].shutting_down


def test_a_stopping_broker_leaves_every_isr_that_others_are_in() -> None:
    led, followed = PartitionState((1, 2, 3), (1, 2, 3), 1), PartitionState((2, 1, 3), (2, 1, 3), 2)
    image = with_topic(cluster_of(3), "t", led, followed, PartitionState((1, 2), (1,), 1))
    image = after(image, begin_shutdown(image, 1, POLICY))
    assert [state.isr for state in image.topics["t"].partitions] == [(2, 3), (2, 3), (1,)]
    assert [state.leader for state in image.topics["t"].partitions] == [2, 2, 1]


def test_only_a_known_broker_that_is_down_can_be_unregistered() -> None:
    image = cluster_of(2)
    for broker_id, code in ((9, ErrorCode.BROKER_ID_NOT_REGISTERED), (2, ErrorCode.INVALID_REQUEST)):
        with pytest.raises(KafkaError) as caught:
            unregister(image, broker_id, POLICY)
        assert caught.value.code is code
    image = after(image, fence(image, 2, POLICY))
    assert list(after(image, unregister(image, 2, POLICY)).brokers) == [1]


def test_an_unclean_election_happens_only_where_a_topic_allows_it() -> None:
    lost = PartitionState((1, 2), (1,), 1)
    for allowed, leader in ((False, NO_LEADER), (True, 2)):
        image = with_topic(cluster_of(2), "t", lost)
        policy = type(POLICY)(unclean_leader_election=allowed)
        image = after(image, fence(image, 1, policy))
        assert image.topics["t"].partitions[0].leader == leader


def test_blocks_of_producer_ids_never_overlap() -> None:
    image = cluster_of(2)
    blocks = []
    for broker_id in (1, 2, 1):
        decided = allocate_producer_ids(image, broker_id, image.brokers[broker_id].epoch)
        blocks.append(decided[1])
        image = after(image, decided)
    assert blocks == [range(PRODUCER_ID_BLOCK_SIZE), range(PRODUCER_ID_BLOCK_SIZE, 2000), range(2000, 3000)]


def test_an_earlier_life_of_a_broker_gets_no_producer_ids() -> None:
    image = cluster_of(1)
    with pytest.raises(KafkaError) as caught:
        allocate_producer_ids(image, 1, image.brokers[1].epoch - 1)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
