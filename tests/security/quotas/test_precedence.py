"""The eight levels of quotas, from the most specific to the most general."""

from __future__ import annotations

import pytest

from barnabas.security.quotas.client_quotas import Limit, Tags, limit_of
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity

LEVELS = [
    (QuotaEntity("alice", "shop"), Tags("alice", "shop")),
    (QuotaEntity("alice", DEFAULT), Tags("alice", "shop")),
    (QuotaEntity("alice"), Tags("alice", "")),
    (QuotaEntity(DEFAULT, "shop"), Tags("alice", "shop")),
    (QuotaEntity(DEFAULT, DEFAULT), Tags("alice", "shop")),
    (QuotaEntity(DEFAULT), Tags("alice", "")),
    (QuotaEntity(None, "shop"), Tags("", "shop")),
    (QuotaEntity(None, DEFAULT), Tags("", "shop")),
]


@pytest.mark.parametrize("level", range(8))
def test_a_more_specific_quota_beats_all_others(level: int) -> None:
    quotas = {entity: float(number) for number, (entity, _) in enumerate(LEVELS) if number >= level}
    assert limit_of(quotas, "alice", "shop") == Limit(LEVELS[level][1], float(level))


@pytest.mark.parametrize(
    "entity",
    [
        QuotaEntity("bob", "shop"),
        QuotaEntity("bob", DEFAULT),
        QuotaEntity("bob"),
        QuotaEntity(DEFAULT, "other"),
        QuotaEntity(None, "other"),
        QuotaEntity(ip="127.0.0.1"),
        QuotaEntity(ip=DEFAULT),
    ],
)
def test_quota_of_another_user_does_not_apply(entity: QuotaEntity) -> None:
    assert limit_of({entity: 1.0}, "alice", "shop") is None


def test_a_client_without_an_id_has_the_default_of_client_ids() -> None:
    assert limit_of({QuotaEntity(None, DEFAULT): 7.0}, "alice", "") == Limit(Tags("", ""), 7.0)
