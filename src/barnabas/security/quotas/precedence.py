"""Which quota a client has, by Kafka's order (KIP-55), and with whom it shares it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.security.quotas.entities import DEFAULT, QuotaEntity


class Tags(NamedTuple):
    """Who shares what was used: Kafka's metric tags. Empty where it does not matter who."""

    user: str
    client_id: str


class Limit(NamedTuple):
    tags: Tags
    bound: float


def limit_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    """The most specific quota; None without one.

    A quota of a user is shared by all its clients, one of a client id by all users. A default is for each for itself.
    Clients without a client id are one client, which has the default; Kafka leaves them without a quota.
    """
    for entity, tags in _levels(user, client_id):
        bound = quotas.get(entity)
        if bound is not None:
            return Limit(tags, bound)
    return None


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Tags]]:
    both, of_user, of_client = Tags(user, client_id), Tags(user, ""), Tags("", client_id)
    yield QuotaEntity(user, client_id), both
    yield QuotaEntity(user, DEFAULT), both
    yield QuotaEntity(user), of_user
    yield QuotaEntity(DEFAULT, client_id), both
    yield QuotaEntity(DEFAULT, DEFAULT), both
    yield QuotaEntity(DEFAULT), of_user
    yield QuotaEntity(None, client_id), of_client
    yield QuotaEntity(None, DEFAULT), of_client
