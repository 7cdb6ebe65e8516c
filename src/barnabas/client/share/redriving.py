"""Reads a dead-letter topic and redrives dead letters to their origin.

Each chunk is one transaction: its records and the progress are committed together. After a crash the next redrive
aborts or completes the open transaction and continues with the rest, so a consumer of committed records reads each
letter once. A second redrive of the same topic fences the first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.consumer import Consumer
from barnabas.client.errors import ClientError
from barnabas.client.fetching import FetchSettings
from barnabas.client.groups import CommittedOffset, committed_offsets, member_offsets
from barnabas.client.offsets import READ_COMMITTED, beginning_offsets, end_offsets
from barnabas.client.producer import Producer
from barnabas.client.producing import FENCED
from barnabas.client.producing.transaction_manager import (
    GroupMetadata,
    ProducerFencedError,
    TransactionManager,
)
from barnabas.client.share.dead_letters import GROUP_PREFIX, DeadLetter, RedrivenOffsets, read_letter
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Client

CHUNK = 500
CHUNK_BYTES = 16 << 20
TIMEOUT_MS = 60_000
"""Of a chunk's transaction: its records are invisible to consumers of committed records for no longer after a crash."""
POLL_SECONDS = 1.0

History = dict[TopicPartition, RedrivenOffsets]
Content = tuple[bytes | None, bytes | None]
"""Key and value."""


class RedriveResult(NamedTuple):
    sent: int
    lost: list[DeadLetter]
    """Letters without content whose original record was deleted."""


class Sendable:
    """Letters that a redrive can send. Without a target topic, those of another kind stay; they are counted."""

    def __init__(self, wanted: Callable[[DeadLetter], bool], to: str | None) -> None:
        self._wanted, self._to = wanted, to
        self.left_out = 0

    def __call__(self, letter: DeadLetter) -> bool:
        if not self._wanted(letter):
            return False
        stays = letter.is_of_another_kind and not self._to
        self.left_out += stays
        return not stays


async def read_history(client: Client, topic: str, *, settled: bool = False) -> History:
    """Read what was redriven; with `settled`, once the last redrive's transaction has ended."""
    partitions, group = await client.partitions([topic]), GROUP_PREFIX + topic
    committed = await (
        member_offsets(client, group, partitions) if settled else committed_offsets(client, group)
    )
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
    max_read: int | None = None,
    max_bytes: int | None = None,
    since: Mapping[TopicPartition, int] | None = None,
) -> list[DeadLetter]:
    """Dead letters up to the current end, oldest first in each partition. `max_read` limits the records read from
    `since` on, `max_bytes` the size of the letters returned."""
    partitions = await client.partitions([topic])
    starts, ends = await beginning_offsets(client, partitions), await end_offsets(client, partitions)
    positions = {tp: max(start, (since or {}).get(tp, 0)) for tp, start in starts.items()}
    positions = {tp: position for tp, position in positions.items() if position < ends[tp]}
    letters, read, size = list[DeadLetter](), 0, 0
    async with Consumer(client, positions, FetchSettings(isolation=READ_COMMITTED)) as consumer:
        while (
            consumer.partitions
            and _below(len(letters), limit)
            and _below(read, max_read)
            and _below(size, max_bytes)
        ):
            for record in await consumer.poll(POLL_SECONDS):
                read += 1
                if record.offset < ends[record.tp] and wanted(letter := read_letter(record)):
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
    max_read: int | None = None,
    max_bytes: int | None = None,
) -> list[DeadLetter]:
    """Dead letters that were not redriven yet."""
    history = await read_history(client, topic)
    return await read_letters(
        client,
        topic,
        lambda letter: letter.offset not in history[letter.tp] and wanted(letter),
        limit=limit,
        max_read=max_read,
        max_bytes=max_bytes,
        since={tp: redriven.position for tp, redriven in history.items()},
    )


async def redrive(
    client: Client,
    topic: str,
    letters: Iterable[DeadLetter],
    to: str | None = None,
    progress: Callable[[int], None] = lambda sent: None,
) -> RedriveResult:
    """Send letters of a topic to their origin, or to the topic `to`; letters that were already redriven are skipped."""
    letters = list(letters)
    _check_targets(letters, to)
    group = GROUP_PREFIX + topic
    transactions = TransactionManager(client, group, TIMEOUT_MS)
    await transactions.initialize()
    history = await read_history(client, topic, settled=True)
    letters = [letter for letter in letters if letter.offset not in history[letter.tp]]
    _check_room(letters, history)
    sent, lost = 0, list[DeadLetter]()
    async with Producer(client, transactions=transactions) as producer:
        async for chunk in _chunks(client, letters, lost):
            transactions.begin()
            try:
                for letter, (key, value) in chunk:
                    await producer.enqueue(to or letter.origin.topic, value, key, headers=letter.sent_back())
                await producer.flush()
                delivered = _progress((letter for letter, _ in chunk), history)
                await transactions.send_offsets(delivered, GroupMetadata(group))
                await transactions.end(committed=True)
            except (ClientError, KafkaError) as error:
                if _is_fenced(error):
                    raise _interrupted(topic, sent) from error
                with suppress(ClientError, KafkaError):
                    await transactions.end(committed=False)
                raise
            sent += len(chunk)
            progress(sent)
    await read_history(client, topic, settled=True)  # so that the caller sees the progress
    return RedriveResult(sent, lost)


def _is_fenced(error: ClientError | KafkaError) -> bool:
    return isinstance(error, ProducerFencedError) or (isinstance(error, KafkaError) and error.code in FENCED)


def _interrupted(topic: str, sent: int) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"another redrive of {topic} has begun, or this one took too long; it sent {sent:,} letters. Redrive the rest",
    )


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


async def _chunks(
    client: Client, letters: Iterable[DeadLetter], lost: list[DeadLetter]
) -> AsyncIterator[list[tuple[DeadLetter, Content]]]:
    """Letters with their content, looked up before a transaction begins; those without any are added to `lost`."""
    chunk, size = list[tuple[DeadLetter, Content]](), 0
    for letter in letters:
        content = await _content(client, letter)
        if content is None:
            lost.append(letter)
            continue
        chunk.append((letter, content))
        size += sum(len(each or b"") for each in content)
        if len(chunk) >= CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _progress(delivered: Iterable[DeadLetter], history: History) -> dict[TopicPartition, CommittedOffset]:
    """Note the letters in the history, and return the offsets to commit."""
    changed = set()
    for letter in delivered:
        history[letter.tp].add(letter.offset)
        changed.add(letter.tp)
    return {tp: CommittedOffset(history[tp].position, history[tp].metadata()) for tp in changed}


async def _content(client: Client, letter: DeadLetter) -> Content | None:
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
