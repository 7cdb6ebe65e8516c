"""Operator commands for mirrors: pause, resume, promote, fail over, reverse.

A Barnabas target keeps the state of mirror topics in its metadata and executes commands itself. For topics that the
mirror produces to (Apache Kafka, `--merge`) commands are values in `__barnabas_mirror`, which the mirror reads.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.admin import describe_cluster
from barnabas.client.cluster import Client
from barnabas.client.mirrors.requests import (
    LinkName,
    act_on_mirrors,
    alter_mirrors,
    describe_mirrors,
    has_mirrors,
    wait_for_state,
)
from barnabas.client.mirrors.store import ALL, CONTROL, MIRROR_TOPIC, TOPIC, LinkStatus, MirrorStore, order
from barnabas.client.offsets import end_offsets
from barnabas.client.status import ProcessStatus, read_statuses
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import compile_pattern
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.mirror import (
    AlteredMirrorPartition,
    AlteredMirrorTopic,
    DescribedMirrorTopic,
    MirrorAction,
    MirrorState,
)

AT_ONCE = 200  # topics in one request
POLL_SECONDS = 0.1
ENDED = frozenset({LinkStatus.PROMOTING, LinkStatus.STOPPED})


@dataclass(slots=True)
class MirrorInfo:
    """Mirror topic of the target."""

    name: str
    link: str
    source_cluster: str
    source_name: str
    state: str
    reason: str = ""
    identical: bool = True
    """Offsets are those of the source; else records are produced again."""
    partitions: int = 0
    lag: int | None = None
    aborted: list[dict[str, Any]] = field(default_factory=list)
    """Transactions that were open when it was promoted."""


async def mirrors_of(client: Client, link: str | None = None, topics: str | None = None) -> list[MirrorInfo]:
    """Mirror topics, optionally filtered by link and by name pattern."""
    pattern = compile_pattern(topics or ".*")
    found = [*await _identical(client), *await _produced(client)]
    return [each for each in found if (link is None or each.link == link) and pattern.fullmatch(each.name)]


async def _identical(client: Client) -> list[MirrorInfo]:
    if not await has_mirrors(client):
        return []
    return [_info(topic) for topic in await describe_mirrors(client)]


def _info(topic: DescribedMirrorTopic) -> MirrorInfo:
    parts = topic.partitions
    state = MirrorState(topic.state)
    failed = [part for part in parts if part.state == MirrorState.FAILED]
    known = [part for part in parts if part.source_high_watermark >= 0 and part.log_end_offset >= 0]
    lag = sum(max(0, part.source_high_watermark - part.log_end_offset) for part in known)
    aborted = [
        {"partition": part.index, "producer_id": each.producer_id, "first_offset": each.first_offset}
        for part in parts
        for each in part.aborted_transactions
    ]
    return MirrorInfo(
        topic.name,
        topic.link,
        topic.source_cluster_id,
        topic.source_name,
        "FAILED" if failed and state is MirrorState.ACTIVE else state.name,
        topic.reason or (failed[0].reason if failed else ""),
        partitions=len(parts),
        lag=lag if known and state is not MirrorState.STOPPED else None,
        aborted=aborted,
    )


async def _produced(client: Client) -> list[MirrorInfo]:
    known = (await client.refresh([MIRROR_TOPIC])).topics.get(MIRROR_TOPIC)
    if known is None or known.error:
        return []
    topics = await client.all_topics()
    store = MirrorStore(client, None)
    await store.catch_up()
    orders = {(words[0], words[2]): order for words, order in store.notes(CONTROL)}
    return [
        MirrorInfo(
            note["target"],
            words[0],
            note["path"][-1],
            words[2],
            orders.get((words[0], note["target"])) or orders.get((words[0], ALL)) or LinkStatus.ACTIVE.value,
            identical=False,
            partitions=len(topics[note["target"]].partitions) if note["target"] in topics else 0,
        )
        for words, note in store.notes(TOPIC)
    ]


async def pause(client: Client, mirrors: Sequence[MirrorInfo]) -> None:
    await _act(client, mirrors, MirrorAction.PAUSE, LinkStatus.PAUSED)


async def resume(client: Client, mirrors: Sequence[MirrorInfo]) -> None:
    """Resume paused and failed partitions."""
    await _act(client, mirrors, MirrorAction.ACTIVATE, LinkStatus.ACTIVE)
    # The first command only marks the source as available, as a mirror does; the second clears failures.
    was_away = [each for each in mirrors if each.identical and each.state == LinkStatus.SOURCE_UNAVAILABLE]
    await _act(client, was_away, MirrorAction.ACTIVATE, LinkStatus.ACTIVE)


async def promote(
    client: Client, mirrors: Sequence[MirrorInfo], source: Client | None, timeout_seconds: float
) -> None:
    """Promote once the target has caught up. Stop producers on the source first."""
    await wait_for_lag(client, mirrors, source, timeout_seconds)
    await _stop(client, mirrors, MirrorAction.PROMOTE)


async def failover(client: Client, mirrors: Sequence[MirrorInfo]) -> None:
    """Promote with the records that the target has, without contacting the source."""
    await _stop(client, mirrors, MirrorAction.FAILOVER)


async def wait_for_lag(
    client: Client, mirrors: Sequence[MirrorInfo], source: Client | None, timeout_seconds: float
) -> None:
    """Wait until caught up: compares with the source, or uses mirror reports newer than this call."""
    since, deadline = time.time_ns() // 1_000_000, Deadline(timeout_seconds)
    while True:
        behind = await (
            _behind_source(client, mirrors, source) if source else _behind(client, mirrors, since)
        )
        if not behind:
            return
        if deadline.passed:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{behind} after {timeout_seconds:g} seconds; nothing was promoted. "
                "`barnabas mirror failover` does not wait",
            )
        await asyncio.sleep(POLL_SECONDS)


async def _behind_source(client: Client, mirrors: Sequence[MirrorInfo], source: Client) -> str:
    """The end of every partition on both sides; only for identical offsets."""
    for each in mirrors:
        if not each.identical:
            return f"{each.name} does not preserve offsets, so it cannot be compared with the source: omit --from"
    source_ends = await end_offsets(source, await source.partitions([each.source_name for each in mirrors]))
    names = {each.source_name: each.name for each in mirrors}
    ours = await end_offsets(client, [TopicPartition(names[name], index) for name, index in source_ends])
    for (name, index), end in source_ends.items():
        there = ours[TopicPartition(names[name], index)]
        if there < end:
            return f"{names[name]}-{index} is {end - there} offsets behind"
    return ""


async def _behind(client: Client, mirrors: Sequence[MirrorInfo], since: int) -> str:
    statuses = {status.name: status for status in await read_statuses(client, "mirror")}
    for each in mirrors:
        if reason := _not_caught_up(each, statuses.get(each.link), since):
            return reason
    return ""


def _not_caught_up(mirror: MirrorInfo, status: ProcessStatus | None, since: int) -> str:
    if status is None or status.state in ("lost", "stopped"):
        return f"no mirror of the link {mirror.link} is running, so the lag of {mirror.name} is unknown"
    if status.updated < since:
        return f"the mirror of {mirror.link} has not reported yet"
    if status.state in ("retrying", "starting"):
        return f"the mirror of {mirror.link} is {status.state}: {status.error}"
    part = next((part for part in status.parts if part.name == mirror.name), None)
    if part is None or part.state != "running":
        return f"{mirror.name} is {part.state if part else 'not mirrored'}: {part.reason if part else ''}"
    return f"{mirror.name} is {part.lag} offsets behind" if part.lag or part.lag is None else ""


async def _stop(client: Client, mirrors: Sequence[MirrorInfo], action: MirrorAction) -> None:
    await _act(client, mirrors, action, LinkStatus.STOPPED)
    identical = [each.name for each in mirrors if each.identical]
    if identical:
        await wait_for_state(client, identical, MirrorState.STOPPED)


async def _act(
    client: Client, mirrors: Sequence[MirrorInfo], action: MirrorAction, state: LinkStatus
) -> None:
    for link, names in _by_link(mirrors, lambda each: each.identical).items():
        for start in range(0, len(names), AT_ONCE):
            altered = await act_on_mirrors(client, link, action, names[start : start + AT_ONCE])
            altered.raise_first()
    for link, names in _by_link(mirrors, lambda each: not each.identical).items():
        await order(MirrorStore(client, link.name), names, state)


def _by_link(
    mirrors: Iterable[MirrorInfo], wanted: Callable[[MirrorInfo], bool]
) -> dict[LinkName, list[str]]:
    found: dict[LinkName, list[str]] = defaultdict(list)
    for each in mirrors:
        if wanted(each):
            found[LinkName(each.link, each.source_cluster)].append(each.name)
    return found


async def reverse(new: Client, old: Client, link: str, topics: str | None) -> list[str]:
    """Turn topics of the old primary into mirrors of the new one, truncated to the promotion offsets."""
    if not await has_mirrors(old):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the old primary is not a Barnabas cluster: its topics cannot be truncated to the promotion offsets. "
            "Mirror to new topics of it instead (barnabas mirror run --rename '{alias}.{topic}')",
        )
    old_id, new_id = (await describe_cluster(old)).cluster_id, (await describe_cluster(new)).cluster_id
    pattern = compile_pattern(topics or ".*")
    promoted = [
        topic
        for topic in await describe_mirrors(new)
        if topic.state == MirrorState.STOPPED
        and topic.source_cluster_id == old_id
        and pattern.fullmatch(topic.source_name)
    ]
    if not promoted:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            "the new primary has no promoted topics of the old one",
        )
    name = LinkName(link, new_id)
    for start in range(0, len(promoted), AT_ONCE):
        part = promoted[start : start + AT_ONCE]
        (await alter_mirrors(old, name, [_reversed(topic) for topic in part])).raise_first()
    names = [topic.source_name for topic in promoted]
    await wait_for_state(old, names, MirrorState.ACTIVE)
    return names


def _reversed(topic: DescribedMirrorTopic) -> AlteredMirrorTopic:
    return AlteredMirrorTopic(
        name=topic.source_name,
        action=int(MirrorAction.REVERSE),
        source_name=topic.name,
        source_topic_id=topic.topic_id,
        partitions=[
            AlteredMirrorPartition(
                index=part.index, promoted_at=part.promoted_at, promoted_epoch=part.promoted_epoch
            )
            for part in topic.partitions
        ],
    )
