"""Describing several groups in one response, common to all types of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.cluster.features import is_enabled
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination import ask_each
from barnabas.handlers.endpoints import ALL_OF_GROUP, NOT_ASKED_FOR
from barnabas.handlers.needs import HasGroups, HasImage

if TYPE_CHECKING:
    from barnabas.groups import GroupShard


class DescribeNeeds(HasGroups, HasImage, Protocol):
    """Broker attributes used to describe groups."""


class Described(Protocol):
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


def describe_each(
    broker: DescribeNeeds,
    group_ids: Sequence[str],
    look: Callable[[GroupShard, str], D],
    respond: Callable[[list[D]], None],
    *,
    answer_class: Callable[..., D],
    feature: str,
    with_operations: bool,
) -> None:
    """Respond when all groups are described, in the order of the request. `answer_class` builds the response
    for a group that cannot be described.
    """
    operations = ALL_OF_GROUP if with_operations else NOT_ASKED_FOR

    def finish(groups: list[D]) -> None:
        for group in groups:
            group.authorized_operations = NOT_ASKED_FOR if group.error_code else operations
        respond(groups)

    def describe(group_id: str, done: Callable[[D], None]) -> None:
        def answered(outcome: D | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                reason = outcome.message or None
                outcome = answer_class(group_id=group_id, error_code=outcome.code, error_message=reason)
            done(outcome)

        if not is_enabled(broker.image, feature):
            answered(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        elif not group_id:
            answered(KafkaError(ErrorCode.INVALID_GROUP_ID))
        else:
            broker.coordinators.groups.read(group_id, lambda shard: look(shard, group_id), answered)

    ask_each(group_ids, describe, finish)
