"""Notations for an API or an error code."""

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.suggestions import member
from barnabas.protocol.api import ApiKey


@pytest.mark.parametrize("name", ["LIST_OFFSETS", "ListOffsets", "listOffsets", "list_offsets", 2])
def test_an_api_has_many_spellings(name: int | str) -> None:
    assert member(ApiKey, name) is ApiKey.LIST_OFFSETS


@pytest.mark.parametrize("name", ["NOT_LEADER_OR_FOLLOWER", "NotLeaderOrFollower", 6])
def test_an_error_too(name: int | str) -> None:
    assert member(ErrorCode, name) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_name_that_does_not_exist_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown ApiKey 'Produces'; did you mean PRODUCE\?"):
        member(ApiKey, "Produces")
    with pytest.raises(ValueError, match=r"unknown ErrorCode 'qqqq'$"):
        member(ErrorCode, "qqqq")
    with pytest.raises(ValueError, match="999"):
        member(ApiKey, 999)
