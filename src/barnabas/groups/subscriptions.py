"""What consumers say to the leader of their group, as far as the broker cares: which topics they consume."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers; Connect's workers and others have their own."""

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of some subscriptions; None when one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics_of(subscription))
    except (StructError, ValueError):
        return None
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str]:
    """Every version of a subscription begins alike: version, then the list of topics."""
    version, count = _VERSION_AND_COUNT.unpack_from(subscription)
    if version < 0 or not 0 <= count <= len(subscription):
        raise ValueError(f"a subscription of version {version} with {count} topics")
    topics, position = [], _VERSION_AND_COUNT.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        name = subscription[position : position + length]
        if length < 0 or len(name) != length:
            raise ValueError(f"a topic name of {length} bytes does not fit")
        topics.append(name.decode())
        position += length
    return topics
