"""Selection of ACLs by filters. handlers/security compares the same filters with Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from barnabas.common.errors import KafkaError
from barnabas.security.authz.acl_filters import AclFilter, check_binding
from barnabas.security.authz.acls import AclBinding, PatternType

NAMES = st.sampled_from(["*", "", "o", "orders", "orders-eu", "other"])
ACLS = st.builds(
    AclBinding,
    st.integers(2, 7),
    NAMES.filter(bool),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:a", "User:b"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.integers(2, 15),
    st.sampled_from([2, 3]),
)


@given(ACLS)
def test_a_filter_without_conditions_selects_everything(acl: AclBinding) -> None:
    assert AclFilter().matches(acl)
    assert AclFilter(*astuple(acl)).matches(acl)


@given(ACLS, NAMES)
def test_match_selects_the_acls_that_apply_to_a_resource(acl: AclBinding, name: str) -> None:
    decides = (
        name.startswith(acl.name) if acl.pattern_type == PatternType.PREFIXED else acl.name in (name, "*")
    )
    # A name that is a prefix itself is selected by its own words, too.
    assert AclFilter(name=name, pattern_type=PatternType.MATCH).matches(acl) == (decides or acl.name == name)


@given(ACLS)
def test_each_condition_counts(acl: AclBinding) -> None:
    others = AclBinding(9, acl.name + "x", 7 - acl.pattern_type, "User:c", "::1", 99, 5 - acl.permission)
    for field, value in zip(AclFilter._fields, astuple(others), strict=True):
        assert not AclFilter()._replace(**{field: value}).matches(acl)


@given(ACLS)
def test_same_records_as_in_kafka_are_retained(acl: AclBinding) -> None:
    if acl.resource_type == 4:
        with pytest.raises(KafkaError, match="kafka-cluster"):
            check_binding(acl)
    else:
        check_binding(acl)
