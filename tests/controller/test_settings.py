"""Immediate effects of changed partition settings."""

from __future__ import annotations

from barnabas.cluster.deltas import ConfigsChanged, PartitionChanged, apply
from barnabas.cluster.image import ConfigResourceType, MetadataImage, PartitionState, Resource
from barnabas.common.errors import ErrorCode
from barnabas.controller.brokers import Registration, begin_shutdown, fence, register
from barnabas.controller.configs import ConfigRules, alter_configs
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.settings import ALL_BROKERS, MIN_ISR, settle_min_isr
from tests.support.builders.images import after, cluster_of, with_topic

RULES = ConfigRules(lambda resource, values: None, lambda resource, name: None)
POLICY = ControllerPolicy(min_insync_replicas=2)
TOPIC = Resource(ConfigResourceType.TOPIC, "orders")


def replicated(*partitions: PartitionState) -> MetadataImage:
    return with_topic(cluster_of(3), "orders", *partitions)


def set_for(
    image: MetadataImage, resource: Resource, policy: ControllerPolicy = POLICY, /, **settings: str
) -> MetadataImage:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    return after(image, alter_configs(image, {resource: values}, RULES, policy))


def without(image: MetadataImage, *brokers: int) -> MetadataImage:
    for broker_id in brokers:
        image = after(image, fence(image, broker_id, POLICY))
    return image


def back(image: MetadataImage, broker_id: int) -> MetadataImage:
    return after(image, register(image, Registration(broker_id, host=f"host-{broker_id}"), POLICY))


def state(image: MetadataImage) -> PartitionState:
    return image.topics["orders"].partitions[0]


FULL = PartitionState((1, 2, 3), (1, 2, 3), 1)


def test_elr_is_empty_where_a_lowered_minimum_lets_the_leader_commit() -> None:
    for resource in (TOPIC, ALL_BROKERS):
        image = without(replicated(FULL), 2, 3)
        assert (state(image).isr, state(image).elr) == ((1,), (3,))
        image = set_for(image, resource, min_insync_replicas="1")
        assert state(image).elr == ()
        # The leader commits alone and dies; the returning replica lacks the records and must not lead.
        image = back(without(image, 1), 3)
        assert (state(image).leader, state(image).elr) == (-1, (1,))
        assert state(back(image, 1)).leader == 1


def test_the_same_holds_when_a_greater_minimum_of_the_topic_is_taken_away() -> None:
    image = set_for(replicated(FULL), TOPIC, min_insync_replicas="3")
    image = without(image, 3)
    assert state(image).elr == (3,)
    assert state(set_for(image, TOPIC)).elr == ()


def test_eligible_replicas_stay_eligible_while_nothing_can_be_committed() -> None:
    five = PartitionState((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), 1)
    image = with_topic(cluster_of(5), "orders", five)
    image = set_for(image, TOPIC, min_insync_replicas="4")
    image = without(image, 5, 4, 3)
    assert (state(image).isr, state(image).elr) == ((1, 2), (4, 3))
    image = set_for(image, TOPIC, min_insync_replicas="3")
    assert state(image).elr == (4, 3)
    assert state(set_for(image, TOPIC, min_insync_replicas="2")).elr == ()


def test_partition_without_a_leader_keeps_its_eligible_replicas() -> None:
    image = without(replicated(FULL), 2, 3, 1)
    assert state(image).elr == (3, 1)
    image = set_for(image, TOPIC, min_insync_replicas="1")
    assert state(image).elr == (3, 1)
    # The first returning replica leads, commits alone, and is the only eligible one.
    image = back(image, 3)
    assert (state(image).leader, state(image).isr, state(image).elr) == (3, (3,), ())
    image = back(without(image, 3), 1)
    assert (state(image).leader, state(image).elr) == (-1, (3,))


def test_change_and_its_consequences_are_one_entry() -> None:
    image = without(replicated(FULL), 2, 3)
    deltas, _ = alter_configs(image, {TOPIC: {MIN_ISR: "1"}}, RULES, POLICY)
    assert [type(delta) for delta in deltas] == [ConfigsChanged, PartitionChanged]


def test_other_settings_and_other_topics_change_no_partition() -> None:
    image = without(replicated(FULL), 2, 3)
    image = with_topic(image, "other", PartitionState((1,), (1,), 1))
    other = Resource(ConfigResourceType.TOPIC, "other")
    assert state(set_for(image, TOPIC, retention_ms="1")) is state(image)
    assert state(set_for(image, other, min_insync_replicas="1")) is state(image)


def test_stopping_leader_continues_to_lead() -> None:
    image = without(replicated(FULL), 2, 3)
    image = after(image, begin_shutdown(image, 1, POLICY))
    assert state(set_for(image, TOPIC, min_insync_replicas="1")).leader == 1


def test_an_election_that_is_allowed_now_is_held_now() -> None:
    for resource in (TOPIC, ALL_BROKERS):
        image = without(replicated(PartitionState((1, 2, 3), (1,), 1)), 1, 3)
        assert state(image).leader == -1
        image = set_for(image, resource, unclean_leader_election_enable="true")
        assert (state(image).leader, state(image).isr, state(image).elr) == (2, (2,), ())


def test_unclean_election_is_held_only_without_a_leader_and_with_a_live_replica() -> None:
    led = without(replicated(PartitionState((1, 2, 3), (1,), 1)), 3)
    allowed = {"unclean_leader_election_enable": "true"}
    assert state(set_for(led, TOPIC, **allowed)) is state(led)
    nobody = without(replicated(PartitionState((1, 2, 3), (1,), 1)), 1, 2, 3)
    assert state(set_for(nobody, TOPIC, **allowed)) is state(nobody)
    other = without(replicated(PartitionState((1, 2, 3), (1,), 1)), 1, 3)
    own = set_for(other, TOPIC, unclean_leader_election_enable="false")
    assert state(set_for(own, ALL_BROKERS, **allowed)).leader == -1


def test_a_new_cluster_has_the_founders_minimum_and_keeps_it() -> None:
    image = after(replicated(FULL), settle_min_isr(replicated(FULL), POLICY, is_alone=False))
    assert image.configs[ALL_BROKERS] == {MIN_ISR: "2"}
    again, _ = settle_min_isr(image, ControllerPolicy(min_insync_replicas=1), is_alone=False)
    assert again == []


def test_single_node_uses_its_properties() -> None:
    assert settle_min_isr(replicated(FULL), POLICY, is_alone=True) == ([], None)


def test_a_minimum_of_a_single_broker_that_an_earlier_version_stored_is_taken_away() -> None:
    one = Resource(ConfigResourceType.BROKER, "1")
    image = apply(replicated(FULL), [ConfigsChanged(*one, {MIN_ISR: "1", "log.retention.ms": "5"})])
    for is_alone in (True, False):
        settled = after(image, settle_min_isr(image, POLICY, is_alone=is_alone))
        assert settled.configs[one] == {"log.retention.ms": "5"}


def test_the_clusters_minimum_can_be_changed_but_not_taken_away() -> None:
    rules = ConfigRules(RULES.check, RULES.list_default, frozenset({MIN_ISR}))
    image = after(replicated(FULL), settle_min_isr(replicated(FULL), POLICY, is_alone=False))
    deltas, results = alter_configs(image, {ALL_BROKERS: {"log.retention.ms": "5"}}, rules, POLICY)
    refusal = results[ALL_BROKERS]
    assert deltas == []
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_CONFIG
    assert "cannot be removed" in refusal.message
    both = {MIN_ISR: "3", "log.retention.ms": "5"}
    image = after(image, alter_configs(image, {ALL_BROKERS: both}, rules, POLICY))
    assert image.configs[ALL_BROKERS] == both
