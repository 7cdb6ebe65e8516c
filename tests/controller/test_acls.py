"""ACLs are matched beforehand, in steps; what is deleted is what filters match when it is decided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.deltas import apply
from barnabas.cluster.image import EMPTY_IMAGE
from barnabas.controller import acls as decide
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding, PatternType
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.common.cooperative import finish
from tests.security.acl_sets import ALICE, BOB, NAMES, acl_sets

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
def test_what_is_deleted_is_what_filters_match_when_it_is_decided(
    before: frozenset[AclBinding], now: frozenset[AclBinding], wanted: list[AclFilter]
) -> None:
    matches = finish(decide.matching(before, wanted))
    image = apply(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, sorted(now))[0])
    deltas, results = decide.delete_acls(image, matches)
    for each, found in zip(wanted, results, strict=True):
        assert not isinstance(found, KafkaError)
        assert sorted(found) == sorted(each.select(now))
    assert apply(image, deltas).acls == {acl for acl in now if not any(each.matches(acl) for each in wanted)}


def numbered(count: int) -> list[AclBinding]:
    return [
        AclBinding(ResourceType.TOPIC, f"topic-{n}", 3, ALICE, "*", Operation.READ, 3) for n in range(count)
    ]


def test_filters_that_match_everything_again_and_again_are_refused() -> None:
    acls = frozenset(numbered(decide.MOST_MATCHED // 10))
    with pytest.raises(KafkaError) as refused:
        finish(decide.matching(acls, [AclFilter()] * 11))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
