"""Selects the topics of a source to mirror, and their names in the target. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from barnabas.client import TopicMetadata
from barnabas.common.regex import compile_pattern
from barnabas.common.types import TopicPartition, Uuid
from barnabas.services.mirror.partition import Payload, TargetPosition

# -- Interface of a target: positions of partitions, and appending -------------------------------------


class MirroredTopicIds(NamedTuple):
    """A topic of the source and its mirror."""

    source: str
    source_id: Uuid
    target: str


class MirrorTarget(Protocol):
    """Partitions are named as in the source; the target translates the names."""

    async def target_positions(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, TargetPosition]:
        """Return the positions of partitions; partitions without a response are missing."""
        ...

    async def append(self, payloads: Sequence[Payload]) -> Mapping[TopicPartition, TargetPosition]:
        """Append, and return the new positions and errors; the position of a missing partition is unknown."""
        ...


IDENTITY = "{topic}"
MAX_NAME = 249  # Kafka's limit for topic names
OWN_PREFIX = "__barnabas_"
# Internal topics of MirrorMaker 2.
_FOREIGN_ENDS = (".checkpoints.internal", ".heartbeats")
_FOREIGN_STARTS = ("mm2-offset-syncs.", "mm2-offsets.", "mm2-configs.", "mm2-status.")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class PlanError(ValueError):
    """The requested mirror is not possible; the message says what to change."""


@dataclass(frozen=True, slots=True)
class MirrorRules:
    """User settings for selecting and naming topics."""

    alias: str
    topics: str = ".*"
    rename: str = IDENTITY
    merge: bool = False

    def check(self) -> None:
        """Raise PlanError if the alias or the rename pattern yields invalid topic names."""
        if not self.alias or not set(self.alias) <= _LETTERS:
            raise PlanError(f"the alias {self.alias!r} must consist of letters, digits, '.', '_' and '-'")
        if "{topic}" not in self.rename:
            raise PlanError(f"--rename {self.rename!r} must contain {{topic}}, as in '{{alias}}.{{topic}}'")
        self.target_name("probe")

    def target_name(self, topic: str) -> str:
        try:
            name = self.rename.format(alias=self.alias, topic=topic)
        except (KeyError, IndexError, ValueError):
            raise PlanError(
                f"--rename {self.rename!r} may contain {{alias}} and {{topic}} and no other braces"
            ) from None
        if len(name) > MAX_NAME or not set(name) <= _LETTERS:
            raise PlanError(
                f"topic {topic!r} would be named {name!r}, which is invalid: letters, digits, '.', '_' and '-' "
                f"only, at most {MAX_NAME}"
            )
        return name


@dataclass(frozen=True, slots=True)
class MirrorOrigin:
    """Clusters that the records of a mirrored source topic passed through, first cluster first."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    source: TopicMetadata
    target: str
    path: tuple[str, ...]
    """Cluster ids that the records pass through; the source is last."""


@dataclass(slots=True)
class MirrorPlan:
    topics: list[PlannedTopic] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons by source name."""


class MirrorPlanner:
    """Plans which topics to mirror, and detects loops and name conflicts."""

    def __init__(self, rules: MirrorRules, source_cluster: str, target_cluster: str) -> None:
        rules.check()
        if source_cluster == target_cluster:
            raise PlanError(f"source and target are the same cluster, {source_cluster}")
        self.rules = rules
        self.source_cluster = source_cluster
        self._target_cluster = target_cluster
        self._pattern: Any = compile_pattern(rules.topics)

    def plan(self, topics: Iterable[TopicMetadata], origins: Mapping[str, MirrorOrigin]) -> MirrorPlan:
        """`origins`: topics of the source that are mirrors, by name."""
        plan, taken = MirrorPlan(), dict[str, str]()
        for topic in sorted(topics, key=lambda each: each.name):
            if not self.is_wanted(topic):
                continue
            reason = self._add(plan, topic, origins.get(topic.name), taken)
            if reason:
                plan.refused[topic.name] = reason
        return plan

    def is_wanted(self, topic: TopicMetadata) -> bool:
        """True if a topic matches the pattern. Internal topics and those of mirroring tools never match."""
        if topic.error or topic.internal or topic.name.startswith(OWN_PREFIX):
            return False
        if topic.name.endswith(_FOREIGN_ENDS) or topic.name.startswith(_FOREIGN_STARTS):
            return False
        return bool(self._pattern.fullmatch(topic.name))

    def _add(
        self, plan: MirrorPlan, topic: TopicMetadata, origin: MirrorOrigin | None, taken: dict[str, str]
    ) -> str:
        path = (*(origin.path if origin else ()), self.source_cluster)
        if self._target_cluster in path:
            return f"a loop: its records come from the target, via {' > '.join(path)}"
        try:
            name = self.rules.target_name(topic.name)
        except PlanError as error:
            return str(error)
        if name in taken:
            return f"its name in the target, {name}, is taken by {taken[name]}"
        taken[name] = topic.name
        plan.topics.append(PlannedTopic(topic, name, path))
        return ""
