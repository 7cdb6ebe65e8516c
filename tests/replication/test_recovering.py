"""An uncleanly elected leader of a tiered topic serves only after reading the manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from barnabas.cluster.image import RECOVERING, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.replication.partition import ALL_REPLICAS, NO_EPOCH, Partition
from barnabas.replication.progress import IsrProposal, SingleNodeProgress
from tests.replication.conftest import NOW, state

Batch = Callable[[], memoryview]


class Asked(SingleNodeProgress):
    def __init__(self) -> None:
        self.proposals: list[IsrProposal] = []

    def isr_wanted(self, partition: Partition, proposal: IsrProposal) -> None:
        self.proposals.append(proposal)


def unclean(epoch: int = 1) -> PartitionState:
    return with_fields(state(epoch=epoch, version=epoch), leader_recovery_state=RECOVERING)


@pytest.fixture
def tiered(partition: Partition) -> Partition:
    config = partition.log.config
    partition.update_config(replace(config, remote_storage_enable=True, min_insync_replicas=1))
    return partition


def test_it_refuses_clients_and_followers_with_an_error_that_is_tried_again(
    tiered: Partition, batch: Batch
) -> None:
    tiered.apply(unclean())
    assert (tiered.is_recovering, tiered.is_leader, tiered.follows_a_leader) == (True, False, False)
    assert tiered.leadership_error(NO_EPOCH) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError, match="waits until it has read what is in the object store") as error:
        tiered.append(batch(), NOW, ALL_REPLICAS)
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    tiered.review_isr(max_lag=0)
    assert tiered.proposal is None


def test_recovered_broker_leads_and_reports_to_the_controller(tiered: Partition, batch: Batch) -> None:
    cluster = tiered._cluster = Asked()
    tiered.apply(unclean())
    tiered.recover()
    assert (tiered.is_recovering, tiered.is_leader) == (False, True)
    assert [proposal.isr for proposal in cluster.proposals] == [(1,)]
    tiered.append(batch(), NOW, ALL_REPLICAS)
    assert tiered.log.epochs.entries == ((1, 0),)
    assert tiered.log.high_watermark == 2
    tiered.recover()
    assert len(cluster.proposals) == 1


def test_an_operator_may_have_it_lead_at_once(tiered: Partition, batch: Batch) -> None:
    tiered.apply(unclean())
    tiered.update_config(replace(tiered.log.config, barnabas_remote_unclean_wait=False))
    assert tiered.is_leader
    tiered.append(batch(), NOW, 1)
    tiered.apply(unclean(epoch=2))
    assert tiered.is_leader


@pytest.mark.parametrize("next_state", [state(epoch=2, version=2), state(leader=2, epoch=2, version=2)])
def test_a_clean_election_ends_it(tiered: Partition, next_state: PartitionState) -> None:
    tiered.apply(unclean())
    tiered.apply(next_state)
    assert not tiered.is_recovering
    assert tiered.is_leader == (next_state.leader == 1)


def test_a_topic_that_is_not_tiered_waits_for_nothing(partition: Partition) -> None:
    partition.apply(unclean())
    assert partition.is_leader


def test_leader_without_its_log_does_the_same_unless_it_has_followed_since(tiered: Partition) -> None:
    tiered.has_lost_log = True
    tiered.apply(state(epoch=1, version=1))
    assert tiered.is_recovering
    tiered.apply(state(leader=2, epoch=2, version=2))
    tiered.apply(state(epoch=3, version=3))
    assert (tiered.is_recovering, tiered.is_leader) == (False, True)
