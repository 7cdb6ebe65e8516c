"""Describing several groups in one answer, for every type of group whose API does that alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from barnabas.server.gathering import Gathering
from barnabas.server.operations import ALL_OF_GROUP, NOT_ASKED_FOR


class Described(Protocol):
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


def describe_each(
    group_ids: Sequence[str],
    describe: Callable[[str, Callable[[D], None]], None],
    respond: Callable[[list[D]], None],
    *,
    with_operations: bool,
) -> None:
    """Respond when all are described, in the order in which they were asked for."""
    operations = ALL_OF_GROUP if with_operations else NOT_ASKED_FOR

    def finish(groups: list[D]) -> None:
        for group in groups:
            group.authorized_operations = NOT_ASKED_FOR if group.error_code else operations
        respond(groups)

    gathering = Gathering(len(group_ids), finish)
    for number, group_id in enumerate(group_ids):
        describe(group_id, gathering.part(number))
