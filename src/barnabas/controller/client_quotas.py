"""Client quotas are set and removed (KIP-546). Each entity of a request succeeds or fails alone.

Checks, their order and texts are those of Kafka's ClientQuotaControlManager. What differs: an entity that a request
names twice is not changed at all (Kafka changes it and answers with the error), addresses are not looked up in the DNS,
and a quota is a finite number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from barnabas.cluster.deltas import ClientQuotasChanged, Delta
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.setting import MAX_INT, MAX_LONG
from barnabas.controller.decision import Decided, check_room
from barnabas.security.quotas.filters import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity

MAX_CHANGES = 1000
"""Of one entity: Kafka's clients change each key once, of which there are five."""
FRACTION = 1e-6  # how far from a whole number Kafka takes a value for one


class QuotaRange(NamedTuple):
    """Range of a quota."""

    largest: float
    type_name: str = "DOUBLE"
    is_whole: bool = True


_RATE = QuotaRange(MAX_LONG, "a LONG")
_FREE = QuotaRange(math.inf, is_whole=False)
KEYS_OF_CLIENTS: dict[str, QuotaRange] = {
    "producer_byte_rate": _RATE,
    "consumer_byte_rate": _RATE,
    "request_percentage": _FREE,
    "controller_mutation_rate": _FREE,
}
KEYS_OF_ADDRESSES: dict[str, QuotaRange] = {"connection_creation_rate": QuotaRange(MAX_INT, "an INT")}

Named = Sequence[tuple[str, str | None]]
"""An entity as a request says it: types with names, None for the default of a type."""


class Alteration(NamedTuple):
    """None takes a quota away."""

    entity: Named
    changes: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    image: MetadataImage,
    alterations: Sequence[Alteration],
    *,
    validate_only: bool = False,
    limit: int = MAX_INT,
) -> Decided[list[KafkaError | None]]:
    """Apply each alteration; return the errors in the order of the request.

    `limit` entities may have quotas.
    """
    counts: dict[frozenset[tuple[str, str | None]], int] = {}
    for one in alterations:
        key = frozenset(one.entity)
        counts[key] = counts.get(key, 0) + 1
    results: list[KafkaError | None] = []
    deltas: list[Delta] = []
    room = limit - len(image.client_quotas)
    for one in alterations:
        try:
            changes = _deltas(image, one, is_repeated=counts[frozenset(one.entity)] > 1)
            if any(delta.entity not in image.client_quotas for delta in changes):
                room -= 1
                check_room(room, "entities with quotas", "barnabas.quotas.max.entities")
            deltas += changes
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    return [] if validate_only else deltas, results


def entity_of(named: Named) -> QuotaEntity:
    """Parse an entity; raise KafkaError if it is not valid."""
    if not named:
        raise _invalid("Invalid empty client quota entity")
    parts: dict[str, str] = {}
    for kind, name in named:
        if kind in parts:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        parts[kind] = DEFAULT if name is None else name
    if IP in parts and len(parts) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    return QuotaEntity(parts.get(USER), parts.get(CLIENT_ID), _address(parts.get(IP)))


def _address(text: str | None) -> str | None:
    if text in (None, DEFAULT):
        return text
    try:
        return str(ip_address(text))
    except ValueError:
        raise _invalid(f"{text} is not a valid IP or resolvable host.") from None


def _deltas(image: MetadataImage, one: Alteration, *, is_repeated: bool) -> list[ClientQuotasChanged]:
    if len(one.changes) > MAX_CHANGES:
        raise _invalid(f"Too many changes of one entity: more than {MAX_CHANGES}. Name each key once")
    keys = [key for key, _ in one.changes]
    if is_repeated or len(set(keys)) != len(keys):
        shown = ", ".join(f"{kind}={name or '<default>'}" for kind, name in one.entity)
        raise _invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")
    entity = entity_of(one.entity)
    known = KEYS_OF_ADDRESSES if entity.ip is not None else KEYS_OF_CLIENTS
    current = image.client_quotas.get(entity, {})
    for key, value in one.changes:
        if value is not None:
            _check(known, key, value)
    changed = {key: value for key, value in one.changes if current.get(key) != value}
    return [ClientQuotasChanged(entity, changed)] if changed else []


def _check(known: Mapping[str, QuotaRange], name: str, value: float) -> None:
    key = known.get(name)
    if key is None:
        raise _invalid(f"Invalid configuration key {name}")
    if not value > 0:
        raise _invalid(f"Quota {name} must be greater than 0")
    if value > key.largest or (key.is_whole and value >= MAX_LONG):
        raise _invalid(f"Proposed value for {name} is too large for {key.type_name}.")
    if key.is_whole and abs(value - round(value)) > FRACTION:
        raise _invalid(f"{name} cannot be a fractional value.")
    if not math.isfinite(value):
        raise _invalid(f"Quota {name} must be a finite number: remove it instead")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
