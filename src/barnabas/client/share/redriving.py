"""Reads a dead-letter topic and redrives dead letters to their origin.

A letter counts as redriven once the record is appended to its topic and the progress is committed, in this order:
after a crash in between it is sent again, never lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.consumer import Consumer
from barnabas.client.fetching import FetchSettings
from barnabas.client.groups import CommittedOffset, commit_offsets, committed_offsets
from barnabas.client.offsets import READ_COMMITTED, beginning_offsets, end_offsets
from barnabas.client.producer import Producer
from barnabas.client.share.dead_letters import GROUP_PREFIX, DeadLetter, RedrivenOffsets, read_letter
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

CHUNK = 500
POLL_SECONDS = 1.0

History = dict[TopicPartition, RedrivenOffsets]


class RedriveResult(NamedTuple):
    sent: int
    lost: list[DeadLetter]
    """Letters without content whose original record was deleted."""


async def read_history(client: Client, topic: str) -> History:
    partitions = await client.partitions([topic])
    committed = await committed_offsets(client, GROUP_PREFIX + topic)
    ends = await end_offsets(client, partitions)
    return {
        tp: RedrivenOffsets.read(committed[tp].offset, committed[tp].metadata, ends[tp])
        if tp in committed
        else RedrivenOffsets()
        for tp in partitions
    }


async def read_letters(
    client: Client,
    topic: str,
    wanted: Callable[[DeadLetter], bool],
    *,
    limit: int | None = None,
    most_read: int | None = None,
    most_bytes: int | None = None,
    since: Mapping[TopicPartition, int] | None = None,
) -> list[DeadLetter]:
    """Dead letters up to the current end, oldest first in each partition. `most_read` limits the records read from
    `since` on, `most_bytes` the size of the letters returned."""
    partitions = await client.partitions([topic])
    starts, ends = await beginning_offsets(client, partitions), await end_offsets(client, partitions)
    positions = {tp: max(start, (since or {}).get(tp, 0)) for tp, start in starts.items()}
    positions = {tp: position for tp, position in positions.items() if position < ends[tp]}
    letters, read, size = list[DeadLetter](), 0, 0
    async with Consumer(client, positions, FetchSettings(isolation=READ_COMMITTED)) as consumer:
        while (
            consumer.partitions
            and _below(len(letters), limit)
            and _below(read, most_read)
            and _below(size, most_bytes)
        ):
            for record in await consumer.poll(POLL_SECONDS):
                read += 1
                letter = read_letter(record) if record.offset < ends[record.tp] else None
                if letter is not None and wanted(letter):
                    letters.append(letter)
                    size += letter.size
            for tp in [tp for tp in consumer.partitions if consumer.position(tp) >= ends[tp]]:
                consumer.remove(tp)
    return sorted(letters, key=lambda letter: (letter.timestamp, letter.where))[:limit]


def _below(number: int, limit: int | None) -> bool:
    return limit is None or number < limit


async def pending_letters(
    client: Client,
    topic: str,
    wanted: Callable[[DeadLetter], bool],
    *,
    limit: int | None = None,
    most_read: int | None = None,
    most_bytes: int | None = None,
) -> list[DeadLetter]:
    """Dead letters that were not redriven yet."""
    history = await read_history(client, topic)
    return await read_letters(
        client,
        topic,
        lambda letter: letter.offset not in history[letter.tp] and wanted(letter),
        limit=limit,
        most_read=most_read,
        most_bytes=most_bytes,
        since={tp: redriven.position for tp, redriven in history.items()},
    )


async def redrive(
    client: Client,
    topic: str,
    letters: Iterable[DeadLetter],
    to: str | None = None,
    progress: Callable[[int], None] = lambda sent: None,
) -> RedriveResult:
    """Send letters of a topic to their origin, or to the topic `to`; commit progress after each chunk."""
    letters = list(letters)
    _check_targets(letters, to)
    history = await read_history(client, topic)
    _check_room(letters, history)
    sent, lost = 0, list[DeadLetter]()
    async with Producer(client) as producer:
        for chunk in _chunks(letters):
            delivered: list[DeadLetter] = []
            for letter in chunk:
                content = await _content(client, letter)
                if content is None:
                    lost.append(letter)
                    continue
                key, value = content
                await producer.enqueue(to or letter.origin.topic, value, key, headers=letter.sent_back())
                delivered.append(letter)
            await producer.flush()
            await _commit(client, delivered, history)
            sent += len(delivered)
            progress(sent)
    return RedriveResult(sent, lost)


def _check_targets(letters: Iterable[DeadLetter], to: str | None) -> None:
    for letter in letters:
        if not to and not letter.origin.topic:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"dead letter {letter.where} has no origin topic: name the target topic",
            )


def _check_room(letters: Iterable[DeadLetter], history: History) -> None:
    """Reject letters whose progress would not fit into the commit metadata: they would be resent every time."""
    after = {tp: RedrivenOffsets(one.position, set(one.beyond)) for tp, one in history.items()}
    for letter in letters:
        after[letter.tp].add(letter.offset)
    try:
        for one in after.values():
            one.metadata()
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _chunks(letters: Iterable[DeadLetter]) -> Iterable[list[DeadLetter]]:
    ordered = list(letters)
    return [ordered[start : start + CHUNK] for start in range(0, len(ordered), CHUNK)]


async def _commit(client: Client, delivered: list[DeadLetter], history: History) -> None:
    for letter in delivered:
        history[letter.tp].add(letter.offset)
    commits = {
        tp: CommittedOffset(history[tp].position, history[tp].metadata())
        for tp in {letter.tp for letter in delivered}
    }
    for topic in {tp.topic for tp in commits}:
        await commit_offsets(client, GROUP_PREFIX + topic, commits)


async def _content(client: Client, letter: DeadLetter) -> tuple[bytes | None, bytes | None] | None:
    if letter.has_content:
        return letter.key, letter.value
    (start,) = (await beginning_offsets(client, [letter.origin])).values()
    if letter.origin_offset < start:
        return None
    async with Consumer(client, {letter.origin: letter.origin_offset}) as consumer:
        for record in await consumer.poll(POLL_SECONDS):
            if record.offset == letter.origin_offset:
                return record.key, record.value
    return None
