"""ACLs are matched in advance in slices; deletions apply to ACLs that match at decision time."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.deltas import apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller import acls as decide
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding, PatternType
from barnabas.security.authz.authorizer import Operation, ResourceType
from tests.support.builders.acls import ALICE, BOB, NAMES, acl_sets

filters = st.builds(
    AclFilter,
    st.sampled_from((1, ResourceType.TOPIC)),
    st.sampled_from((None, *NAMES)),
    st.sampled_from((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL)),
    st.sampled_from((None, ALICE, BOB)),
    st.none(),
    st.sampled_from((1, Operation.READ)),
    st.just(1),
)


@given(acl_sets, acl_sets, st.lists(filters, max_size=4))
def test_deleted_acls_are_those_that_match_at_decision_time(
    before: frozenset[AclBinding], now: frozenset[AclBinding], wanted: list[AclFilter]
) -> None:
    plan = finish(decide.delete_acls(before, wanted))
    image = with_acls(now)
    deltas, results = decide.change_acls(image, plan)
    for each, found in zip(wanted, results, strict=True):
        assert not isinstance(found, KafkaError)
        assert sorted(found) == sorted(each.select(now))
    assert apply(image, deltas).acls == {acl for acl in now if not any(each.matches(acl) for each in wanted)}


def with_acls(acls: Iterable[AclBinding]) -> MetadataImage:
    plan = finish(decide.create_acls(EMPTY_IMAGE.acls, sorted(acls)))
    return apply(EMPTY_IMAGE, decide.change_acls(EMPTY_IMAGE, plan)[0])


@given(acl_sets, acl_sets, acl_sets, st.lists(filters, max_size=4))
def test_a_plan_made_again_is_the_one_that_is_made_at_first(
    first: frozenset[AclBinding],
    then: frozenset[AclBinding],
    now: frozenset[AclBinding],
    wanted: list[AclFilter],
) -> None:
    plan = finish(finish(finish(decide.delete_acls(first, wanted)).again(then)).again(now))
    expected = finish(decide.delete_acls(now, wanted))
    assert [sorted(found) for found in plan.results] == [sorted(found) for found in expected.results]
    assert set(plan.removed) == set(expected.removed)
    created = finish(finish(decide.create_acls(first, sorted(then))).again(now))
    assert set(created.added) == then - now


def test_plan_for_changed_acls_is_left_to_the_caller() -> None:
    image, acl = with_acls(numbered(2)), numbered(3)[2]
    plan = finish(decide.create_acls(EMPTY_IMAGE.acls, [acl]))
    assert decide.change_acls(image, plan, in_one_step=False) == ([], image.acls)
    deltas, results = decide.change_acls(image, finish(plan.again(image.acls)), in_one_step=False)
    assert results == [None]
    assert apply(image, deltas).acls == {*numbered(3)}


def numbered(count: int) -> list[AclBinding]:
    return [
        AclBinding(ResourceType.TOPIC, f"topic-{n}", 3, ALICE, "*", Operation.READ, 3) for n in range(count)
    ]


def test_filters_that_match_everything_again_and_again_are_refused() -> None:
    acls = frozenset(numbered(decide.MAX_MATCHED // 10))
    with pytest.raises(KafkaError) as refused:
        finish(decide.delete_acls(acls, [AclFilter()] * 11))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
