"""Whom a client quota is for: a user, a client id, both, or an address (KIP-546, KIP-612)."""

from __future__ import annotations

from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of entities, as requests call them."""

DEFAULT = ""
"""Instead of a name: all of that kind that have no quota of their own."""


class QuotaEntity(NamedTuple):
    """None where the quota does not depend on it. An address stands alone."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
