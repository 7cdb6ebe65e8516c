"""Valid extreme messages of any declared API, with existing names.

Randomness comes from a `random.Random`. The long run seeds one; hypothesis has one of its own (`st.randoms()`)
whose draws it shrinks, so that both make their messages here.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.routes import Handler
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.schema import Field, Message, Struct
from tests.fuzz import extremes
from tests.fuzz.batches import Batches
from tests.fuzz.world import BROKER_ID, GROUPS, TOPICS, TRANSACTIONAL_IDS, World

KNOWN_SHARE = 0.7  # of the values for which one is known that exists
DEEPEST_DISTINCT = 8  # elements of a wide array that differ; the others repeat them
MAX_FRAME = 1_000_000  # bytes, about
SHORT_WAITS = (0, 0, 0, 1, 1)

TOPIC_FIELDS = {"topic", "topic_name", "name", "topics", "topic_names", "subscribed_topic_names", "source_topics",
                "repartition_sink_topics", "topics_names"}  # fmt: skip
GROUP_FIELDS = {"group_id", "group", "group_ids", "groups_names", "groups", "coordinator_keys", "key"}
PARTITION_FIELDS = {
    "partition",
    "partition_index",
    "index",
    "partition_indexes",
    "partition_id",
    "partitions",
    "partition_ids",
}
BROKER_FIELDS = {"broker_id", "node_id", "replica_id", "replicas", "broker_ids", "new_isr", "leader_id"}
PATTERN_FIELDS = {"transactional_id_pattern", "subscribed_topic_regex", "source_topic_regex"}
WAIT_FIELDS = {"max_wait_ms", "timeout_ms", "rebalance_timeout_ms"}
# Values excluded from random use: they would legitimately stop the broker.
HARMLESS_RESOURCE_TYPES = (2, 2, 2, 32, 32, 16, 0, 1, 3, 127)
RARE_APIS = {"DeleteTopicsRequest": 0.1, "UnregisterBrokerRequest": 0.1, "CreateTopicsRequest": 0.3,
             "CreatePartitionsRequest": 0.2, "BrokerHeartbeatRequest": 0.1, "AlterPartitionRequest": 0.3,
             "UpdateFeaturesRequest": 0.3, "AlterPartitionReassignmentsRequest": 0.3}  # fmt: skip
FREQUENT_APIS = {"ProduceRequest": 3.0, "FetchRequest": 2.0}


@cache
def present_fields(cls: type[Struct], version: int) -> tuple[tuple[Field, bool], ...]:
    """The fields of a version, each with whether it may be null."""
    return tuple((field, field.nullable_in(version)) for field in cls.FIELDS if field.present_in(version))


class Generator:
    def __init__(self, source: Random, world: World, batches: Batches) -> None:
        self.source = source
        self.world = world
        self.batches = batches
        self._left = self._weight = 0
        self._group = self._topic = self._transactional_id = ""
        self._weights = [
            FREQUENT_APIS.get(name, RARE_APIS.get(name, 1.0))
            for name in (row.request_class.__name__ for row in HANDLERS)
        ]

    def handler(self) -> Handler:
        chosen: Handler = self.source.choices(HANDLERS, self._weights)[0]
        return chosen

    def message(self, handler: Handler) -> tuple[int, Message]:
        """A version that is served, and a message of it."""
        source = self.source
        version = source.randint(handler.min_version, handler.max_version)
        self._left, self._weight = extremes.budget(source), 0
        self._group = source.choice(GROUPS)
        self._topic = source.choice(tuple(TOPICS))
        self._transactional_id = source.choice(TRANSACTIONAL_IDS)
        message: Message = self._struct(handler.request_class, version)
        return version, message

    def frame(self, correlation_id: int, handler: Handler | None = None) -> bytes:
        """A complete request. Values unsupported by a version are drawn again."""
        handler = handler or self.handler()
        while True:
            version, message = self.message(handler)
            client_id = "fuzz" if self.source.random() < 0.98 else self.source.choice(extremes.NAMES)[:20]
            header = RequestHeader(handler.request_class.api_key, version, correlation_id, client_id)
            try:
                return b"".join(encode_request(header, message))
            except (ValueError, OverflowError):
                continue

    def _struct(self, cls: type[Struct], version: int) -> Any:
        return cls(**{
            field.name: self._field(cls, field, nullable, version) for field, nullable in present_fields(cls, version)
        })  # fmt: skip

    def _field(self, cls: type[Struct], field: Field, nullable: bool, version: int) -> Any:
        if nullable and self.source.random() < 0.15:
            return None
        if field.tag is not None and self.source.random() < 0.5 and field.wire != "structure":
            return field.default if field.default != () else []
        if field.wire == "array":
            return self._array(cls, field, version)
        if field.wire == "structure":
            return self._struct(field.element, version)
        return self._value(cls.__name__, field.name, field.wire)

    def _array(self, cls: type[Struct], field: Field, version: int) -> list[Any]:
        count, before = self._count(), self._weight
        distinct = min(count, DEEPEST_DISTINCT)
        self._left -= count
        if isinstance(field.element, str):
            values = [self._value(cls.__name__, field.name, field.element) for _ in range(distinct)]
            rename: Any = self._renamed_value
        else:
            values = [self._struct(field.element, version) for _ in range(distinct)]
            rename = self._renamed_struct
        each = (self._weight - before) // max(distinct, 1) + 1
        count = max(distinct, min(count, (MAX_FRAME - before) // each))
        self._weight = before + each * count
        return self._widen(values, count, rename)

    def _count(self) -> int:
        how = self.source.random()
        if self._left <= 0:
            return 0 if how < 0.5 else 1
        if how < 0.05:
            return 0
        if how < 0.75:
            return self.source.choice((1, 1, 1, 2, 3))
        return self.source.randint(1, max(self._left, 1))

    def _widen(self, values: list[Any], count: int, rename: Any) -> list[Any]:
        """Repeat the elements, or give each a distinct name."""
        if count <= len(values) or not values:
            return values
        repeated = (values * (count // len(values) + 1))[:count]
        if self.source.random() < 0.5:
            return repeated
        return [rename(value, number) for number, value in enumerate(repeated)]

    @staticmethod
    def _renamed_value(value: Any, number: int) -> Any:
        if isinstance(value, str):
            return f"{value[:20]}{number}"
        return number if isinstance(value, int) and not isinstance(value, bool) and number < 128 else value

    @staticmethod
    def _renamed_struct(value: Struct, number: int) -> Struct:
        copied = type(value)(**{field.name: getattr(value, field.name) for field in value.FIELDS})
        for field in value.FIELDS:
            if field.wire == "string" and getattr(value, field.name) is not None:
                setattr(copied, field.name, f"{getattr(value, field.name)[:20]}{number}")
                return copied
            if field.wire in ("int32", "int64"):
                setattr(copied, field.name, number)
                return copied
        return copied

    def _value(self, owner: str, name: str, kind: str) -> Any:
        value = self._draw(owner, name, kind)
        self._weight += len(value) if isinstance(value, (str, bytes)) else 4
        return value

    def _draw(self, owner: str, name: str, kind: str) -> Any:
        """A value for a field: mostly one that exists on the broker, else an extreme one."""
        if kind == "records":
            return self.batches.draw(self.source, self.world)
        if name in WAIT_FIELDS and self.source.random() < 0.97:
            return self.source.choice(SHORT_WAITS)
        if name == "resource_type" and owner.startswith(("Alter", "Incremental")):
            return self.source.choice(HARMLESS_RESOURCE_TYPES)
        if self.source.random() < KNOWN_SHARE:
            known = self._known(owner, name, kind)
            if known is not None:
                return known
        return extremes.scalar(kind, self.source)

    def _known(self, owner: str, name: str, kind: str) -> Any | None:
        """Something that exists and fits, or None."""
        learned = self.world.recall(name, self.source)
        if learned is not None:
            return learned
        if kind == "string":
            return self._known_name(owner, name)
        if kind == "byte_string":
            return self.batches.opaque(self.source)
        if kind in extremes.RANGES:
            return self._known_number(name)
        return None

    def _known_name(self, owner: str, name: str) -> str | None:
        choice = self.source.choice
        if "Config" in owner and name in ("name", "configuration_keys"):
            return choice(extremes.CONFIG_NAMES)
        if name == "value":
            return choice(extremes.CONFIG_VALUES)
        if name == "resource_name":
            return choice((str(BROKER_ID), "", self._topic, self._group))
        if name in PATTERN_FIELDS:
            return choice(extremes.PATTERNS)
        if name in TOPIC_FIELDS:
            return self._topic
        if name in GROUP_FIELDS:
            return self._group
        return self._transactional_id if "transactional_id" in name else None

    def _known_number(self, name: str) -> int | None:
        if name in PARTITION_FIELDS:
            return self.source.randrange(TOPICS[self._topic] + 1)
        if name in BROKER_FIELDS:
            return BROKER_ID
        if name == "resource_type":
            return self.source.choice((2, 4, 8, 16, 32))
        if name == "acks":
            return self.source.choice((1, -1, 1, 0))
        return None
