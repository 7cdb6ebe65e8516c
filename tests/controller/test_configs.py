from collections.abc import Mapping

import pytest

from barnabas.cluster.deltas import FeatureFinalized
from barnabas.cluster.features import SHARE_VERSION
from barnabas.cluster.image import ConfigResourceType, MetadataImage, PartitionState, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.configs import (
    ConfigOperation,
    ConfigOperationType,
    ConfigRules,
    alter_configs,
    incremental_alter_configs,
)
from tests.support.builders.images import POLICY, after, cluster_of, with_topic

TOPIC = Resource(ConfigResourceType.TOPIC, "t")
IMAGE = with_topic(cluster_of(1), "t", PartitionState((1,), (1,), 1))


def check(resource: Resource, values: Mapping[str, str]) -> None:
    if "bad" in values:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "bad is bad")


def list_default(resource: Resource, name: str) -> str | None:
    return "delete" if name == "cleanup.policy" else None


RULES = ConfigRules(check, list_default)


def operated(*operations: ConfigOperation, image: object = IMAGE) -> tuple[dict[str, str], KafkaError | None]:
    decided = incremental_alter_configs(image, {TOPIC: operations}, RULES, POLICY)  # type: ignore[arg-type]
    return dict(after(image, decided).topic_configs("t")), decided[1][TOPIC]  # type: ignore[arg-type]


def test_altering_replaces_all_settings() -> None:
    image = after(IMAGE, alter_configs(IMAGE, {TOPIC: {"a": "1", "b": "2"}}, RULES, POLICY))
    image = after(image, alter_configs(image, {TOPIC: {"b": "3"}}, RULES, POLICY))
    assert image.topic_configs("t") == {"b": "3"}


def test_nothing_is_stored_when_nothing_changes_or_it_is_only_checked() -> None:
    assert alter_configs(IMAGE, {TOPIC: {"a": "1"}}, RULES, POLICY, validate_only=True) == ([], {TOPIC: None})
    image = after(IMAGE, alter_configs(IMAGE, {TOPIC: {"a": "1"}}, RULES, POLICY))
    assert alter_configs(image, {TOPIC: {"a": "1"}}, RULES, POLICY) == ([], {TOPIC: None})


def test_a_refused_resource_does_not_hold_up_the_others() -> None:
    broker = Resource(ConfigResourceType.BROKER, "1")
    decided = alter_configs(IMAGE, {TOPIC: {"bad": "1"}, broker: {"a": "1"}}, RULES, POLICY)
    assert decided[1][broker] is None
    error = decided[1][TOPIC]
    assert error is not None
    assert error.code is ErrorCode.INVALID_CONFIG
    assert after(IMAGE, decided).configs == {broker: {"a": "1"}}


def test_a_topic_that_does_not_exist_has_no_settings() -> None:
    other = Resource(ConfigResourceType.TOPIC, "other")
    error = alter_configs(IMAGE, {other: {}}, RULES, POLICY)[1][other]
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_are_set_and_deleted_one_by_one() -> None:
    image = after(IMAGE, alter_configs(IMAGE, {TOPIC: {"a": "1", "b": "2"}}, RULES, POLICY))
    operations = (
        ConfigOperation("a", ConfigOperationType.DELETE, None),
        ConfigOperation("c", ConfigOperationType.SET, "3"),
        ConfigOperation("d", ConfigOperationType.DELETE, None),
    )
    assert operated(*operations, image=image) == ({"b": "2", "c": "3"}, None)


def test_lists_grow_from_their_default_and_shrink() -> None:
    appended, _ = operated(ConfigOperation("cleanup.policy", ConfigOperationType.APPEND, "compact,delete"))
    assert appended == {"cleanup.policy": "delete,compact"}
    subtracted, _ = operated(ConfigOperation("cleanup.policy", ConfigOperationType.SUBTRACT, "delete,other"))
    assert subtracted == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([ConfigOperation("a", ConfigOperationType.APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([ConfigOperation("a", ConfigOperationType.SET, None)], ErrorCode.INVALID_REQUEST),
        ([ConfigOperation("a", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([ConfigOperation("a", 0, "1"), ConfigOperation("a", 0, "2")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_operations_that_make_no_sense_are_refused(
    operations: list[ConfigOperation], code: ErrorCode
) -> None:
    values, error = operated(*operations)
    assert values == {}
    assert error is not None
    assert error.code is code


DEAD_LETTERS = "errors.deadletterqueue.topic.name"
WORKERS, OTHERS = Resource(ConfigResourceType.GROUP, "workers"), Resource(ConfigResourceType.GROUP, "others")


def at_share_version(level: int, **configs: str) -> MetadataImage:
    image = after(IMAGE, ([FeatureFinalized(SHARE_VERSION, 2)], None))
    image = after(image, alter_configs(image, {WORKERS: configs}, RULES, POLICY)) if configs else image
    return after(image, ([FeatureFinalized(SHARE_VERSION, level)], None))


@pytest.mark.parametrize(("level", "is_given"), [(0, False), (1, False), (2, True)])
def test_a_group_gets_its_first_dead_letters_at_share_version_two(level: int, is_given: bool) -> None:
    image = at_share_version(level)
    error = alter_configs(image, {WORKERS: {DEAD_LETTERS: "dlq.w"}}, RULES, POLICY)[1][WORKERS]
    assert (error is None) == is_given
    if error is not None:
        assert error.code is ErrorCode.INVALID_CONFIG
        assert "share.version=2" in error.message
    assert alter_configs(image, {WORKERS: {DEAD_LETTERS: ""}}, RULES, POLICY)[1][WORKERS] is None


def test_a_group_that_has_dead_letters_keeps_them_at_share_version_one() -> None:
    image = at_share_version(1, **{DEAD_LETTERS: "dlq.w"})
    assert image.configs[WORKERS] == {DEAD_LETTERS: "dlq.w"}
    for change in (("share.delivery.count.limit", "3"), (DEAD_LETTERS, "dlq.other")):
        operation = ConfigOperation(change[0], ConfigOperationType.SET, change[1])
        decided = incremental_alter_configs(image, {WORKERS: [operation]}, RULES, POLICY)
        assert decided[1][WORKERS] is None
        image = after(image, decided)
    assert image.configs[WORKERS] == {DEAD_LETTERS: "dlq.other", "share.delivery.count.limit": "3"}
    assert alter_configs(image, {OTHERS: {DEAD_LETTERS: "dlq.w"}}, RULES, POLICY)[1][OTHERS] is not None
