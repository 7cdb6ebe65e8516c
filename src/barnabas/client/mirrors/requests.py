"""Requests for mirror topics of a Barnabas cluster: create, describe, change state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError, UnsupportedApiError, error_code
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff, Deadline
from barnabas.protocol.messages.mirror import (
    AlteredMirrorPartition,
    AlteredMirrorResult,
    AlteredMirrorTopic,
    AlterMirrorsRequest,
    AlterMirrorsResponse,
    DescribedMirrorPartition,
    DescribedMirrorTopic,
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    MirrorAction,
    MirrorState,
)

SETTLE_SECONDS = 60.0
NOT_KNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.RESOURCE_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class LinkName:
    """Source cluster of a link, and the clusters on the path to it."""

    name: str
    source_cluster: str
    path: tuple[str, ...] = ()


@dataclass(slots=True)
class Altered:
    """Result per topic: new state or error."""

    states: dict[str, MirrorState] = field(default_factory=dict)
    refused: dict[str, KafkaError] = field(default_factory=dict)

    def raise_first(self) -> None:
        for error in self.refused.values():
            raise error


async def has_mirrors(client: Client) -> bool:
    """True if the cluster is Barnabas and supports mirror topics."""
    connection = await client.any_connection()
    try:
        connection.version_for(DescribeMirrorsRequest)
    except UnsupportedApiError:
        return False
    return True


async def alter_mirrors(client: Client, link: LinkName, topics: Sequence[AlteredMirrorTopic]) -> Altered:
    """Send one request; errors are returned per topic."""
    request = AlterMirrorsRequest(
        timeout_ms=int(client.request_timeout * 1000),
        link=link.name,
        source_cluster_id=link.source_cluster,
        path=list(link.path),
        topics=list(topics),
    )
    response: AlterMirrorsResponse = await client.send_to_any(request)
    altered = Altered()
    for result in response.topics:
        if result.error_code:
            altered.refused[result.name] = _refusal(result)
        else:
            altered.states[result.name] = MirrorState(result.state)
    return altered


async def act_on_mirrors(
    client: Client, link: LinkName, action: MirrorAction, names: Iterable[str]
) -> Altered:
    return await alter_mirrors(
        client, link, [AlteredMirrorTopic(name=name, action=int(action)) for name in names]
    )


async def raise_leader_epochs(
    client: Client, link: LinkName, wanted: Mapping[str, Mapping[int, int]]
) -> Altered:
    """Raise leader epochs of the target to at least the given ones, by topic and partition."""
    return await alter_mirrors(
        client,
        link,
        [
            AlteredMirrorTopic(
                name=name,
                partitions=[
                    AlteredMirrorPartition(index=index, min_leader_epoch=epoch)
                    for index, epoch in epochs.items()
                ],
            )
            for name, epochs in wanted.items()
        ],
    )


async def fail_partitions(
    client: Client, link: LinkName, reasons: Mapping[str, Mapping[int, str]]
) -> Altered:
    """Mark partitions as failed, with a reason by topic and partition."""
    return await alter_mirrors(
        client,
        link,
        [
            AlteredMirrorTopic(
                name=name,
                partitions=[
                    AlteredMirrorPartition(index=index, state=int(MirrorState.FAILED), reason=reason)
                    for index, reason in found.items()
                ],
            )
            for name, found in reasons.items()
        ],
    )


async def describe_mirrors(
    client: Client, topics: Iterable[str] | None = None, *, partitions: bool = True
) -> list[DescribedMirrorTopic]:
    """Merged view of all brokers: each reports the partitions that it leads. Unknown topics are left out, also those
    just created. The state of a topic is the controller's: other brokers may lag behind it."""
    request = DescribeMirrorsRequest(
        topics=None if topics is None else sorted(topics), include_partitions=partitions
    )
    if not partitions:
        return _checked(await _ask_controller(client, request))
    metadata = await client.refresh([])
    brokers = sorted(metadata.brokers, key=lambda broker: broker != metadata.controller_id)
    answers = await asyncio.gather(*(client.send_to_broker(broker, request) for broker in brokers))
    merged: dict[str, DescribedMirrorTopic] = {}
    for topic in (topic for answer in answers for topic in _checked(answer)):
        known = merged.setdefault(topic.name, topic)
        known.partitions = _better(known.partitions, topic.partitions)
    return [merged[name] for name in sorted(merged)]


async def _ask_controller(client: Client, request: DescribeMirrorsRequest) -> DescribeMirrorsResponse:
    try:
        response: DescribeMirrorsResponse = await client.send_to_controller(request)
    except ClientError:  # until another one is elected, the answer of any broker has to do
        response = await client.send_to_any(request)
    return response


async def wait_for_state(
    client: Client, names: Iterable[str], state: MirrorState, timeout_seconds: float = SETTLE_SECONDS
) -> list[DescribedMirrorTopic]:
    """Wait until all topics reach the state; KafkaError on timeout."""
    wanted, deadline, backoff = sorted(names), Deadline(timeout_seconds), Backoff()
    while True:
        found = await describe_mirrors(client, wanted, partitions=False)
        waiting = [topic for topic in found if topic.state != state]
        if not waiting and len(found) == len(wanted):
            return await describe_mirrors(client, wanted)
        if deadline.passed:
            reasons = [f"{each.name} is {MirrorState(each.state).name}: {each.reason}" for each in waiting]
            text = (
                f"not all topics are {state.name} after {timeout_seconds:g} seconds. {' '.join(reasons[:3])}"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        await asyncio.sleep(min(backoff.next_delay() / 2, 0.25))


def _checked(response: DescribeMirrorsResponse) -> list[DescribedMirrorTopic]:
    known = [topic for topic in response.topics if topic.error_code not in NOT_KNOWN]
    for topic in known:
        raise_for(topic.error_code, topic.error_message or topic.name)
    return known


def _better(
    known: Sequence[DescribedMirrorPartition], reasons: Sequence[DescribedMirrorPartition]
) -> list[DescribedMirrorPartition]:
    """Prefer the leader's report of each partition."""
    found = {partition.index: partition for partition in known}
    for partition in reasons:
        other = found.get(partition.index)
        if other is None or partition.log_end_offset > other.log_end_offset:
            found[partition.index] = partition
    return [found[index] for index in sorted(found)]


def _refusal(result: AlteredMirrorResult) -> KafkaError:
    return KafkaError(error_code(result.error_code), result.error_message or f"topic {result.name!r}")
