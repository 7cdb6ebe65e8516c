"""Known resources on the broker: names created for the run, and values from responses."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from barnabas.protocol.schema import Message, Struct

TOPICS = {"known": 3, "compacted": 2, "many": 100}  # partitions
GROUPS = ("classic-group", "consumer-group", "share-group", "streams-group")
TRANSACTIONAL_IDS = ("a" * 32, "payments", "shop-1")
BROKER_ID = 1
REMEMBERED = 24  # values of each kind, the latest
NOT_LEARNED_BEYOND = 200  # elements of a response: more are redundant

# Fields of answers that later requests repeat. A member that has joined can so be synced, a session continued.
LEARNED = frozenset(
    (
        "member_id", "generation_id", "member_epoch", "session_id", "producer_id", "producer_epoch", "topic_id",
        "cluster_id", "leader_epoch", "broker_epoch", "base_offset", "high_watermark",
        "instance_id", "group_instance_id",
    )
)  # fmt: skip


class World:
    def __init__(self) -> None:
        self.known: dict[str, deque[Any]] = {}

    def learn(self, struct: Struct) -> None:
        left = NOT_LEARNED_BEYOND
        waiting = [struct]
        while waiting and left:
            left -= 1
            current = waiting.pop()
            for field in current.FIELDS:
                value = getattr(current, field.name)
                if field.name in LEARNED:
                    self._remember(field.name, value)
                elif isinstance(value, Struct):
                    waiting.append(value)
                elif isinstance(value, list) and value and isinstance(value[0], Struct):
                    waiting += value[:left]

    def _remember(self, name: str, value: Any) -> None:
        if value not in (None, "", -1, bytes(16)):
            self.known.setdefault(name, deque(maxlen=REMEMBERED)).append(value)

    def recall(self, name: str, source: Random) -> Any | None:
        values = self.known.get(name)
        return source.choice(values) if values else None


def walk_error_codes(message: Message) -> set[int]:
    """Every error code in an answer."""
    found: set[int] = set()
    waiting: list[Struct] = [message]
    while waiting:
        current = waiting.pop()
        for field in current.FIELDS:
            value = getattr(current, field.name)
            if field.name.endswith("error_code"):
                found.add(value)
            elif isinstance(value, Struct):
                waiting.append(value)
            elif isinstance(value, list) and value and isinstance(value[0], Struct):
                waiting += value
    return found
