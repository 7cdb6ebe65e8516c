"""Share consumers (KIP-932): records of a share group are acquired like jobs of a queue and acknowledged one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from barnabas.client.api.consumer_positions import deserializers
from barnabas.client.api.errors import AcknowledgeError, SerializationError
from barnabas.client.api.fetched import ConsumerRecord
from barnabas.client.api.loop import shared_loop
from barnabas.client.api.options import CheckedOptions, ShareConsumerOptions
from barnabas.client.share import AcknowledgeType, AcquiredRecord, Refusal
from barnabas.client.share import ShareConsumer as ShareMember
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

T = TypeVar("T")

Answer: TypeAlias = Literal["accept", "release", "reject", "renew"]
ANSWERS = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
    "renew": AcknowledgeType.RENEW,
}
LONG = 3600.0


class ShareRecord(NamedTuple):
    """An acquired record. `delivery_count` includes this delivery."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ShareCore:
    """Common part of both forms. Implicit mode accepts records when the caller asks for more."""

    def __init__(
        self,
        name: str,
        bootstrap_servers: str | Iterable[str] | None,
        topics: str | Iterable[str],
        config: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        read = CheckedOptions(name, ShareConsumerOptions, bootstrap_servers, config, options)
        group = read.text("group_id")
        wanted = [topics] if isinstance(topics, str) else list(topics)
        if group is None or not wanted:
            raise ValueError(f'{name}() needs topics and a group: {name}(topics="jobs", group_id="workers")')
        mode = read.choice("share_acknowledgement_mode", "implicit", ("implicit", "explicit"))
        self.is_implicit = mode == "implicit"
        self.max_records = int(read.number("max_poll_records", 500, 1))
        self.client = read.client()
        self._member = ShareMember(self.client, group, wanted)
        self._deserializers, self._resources = deserializers(read), read.resources
        self._is_open = False
        self._held: dict[tuple[TopicPartition, int], AcquiredRecord] = {}
        self.queue: deque[ShareRecord] = deque()  # acquired, and not handed out by an iterator yet

    async def take(self, limit: int | None, seconds: float) -> list[ShareRecord]:
        if self.queue:
            rest = list(self.queue)
            self.queue.clear()
            return rest
        await self._open()
        self.accept_rest()
        found = await self._member.take(limit or self.max_records, seconds)
        self._raise_refusals()
        records = []
        for taken in found:
            record = self._record(taken)
            if record is not None:
                self._held[taken.tp, taken.offset] = taken
                records.append(record)
        return records

    def acknowledge(self, record: ShareRecord, answer: str) -> None:
        if answer not in ANSWERS:
            raise ValueError(f"an acknowledgement must be one of {', '.join(ANSWERS)}, not {answer!r}")
        found = self._held.get((record.tp, record.offset))
        if found is None:
            raise ValueError(f"the record at offset {record.offset} of {record.tp} is acknowledged already")
        self._member.answer(found, ANSWERS[answer])
        if answer != "renew":
            del self._held[record.tp, record.offset]

    def accept(self, record: ShareRecord) -> None:
        """Implicit mode: accept a record that the caller has not acknowledged itself."""
        if self.is_implicit and (record.tp, record.offset) in self._held:
            self.acknowledge(record, "accept")

    async def commit(self) -> None:
        """Send acknowledgements now."""
        self._member.refusals.clear()
        await self._member.flush()
        self._raise_refusals()

    def accept_rest(self) -> None:
        if self.is_implicit:
            for taken in self._held.values():
                self._member.answer(taken, AcknowledgeType.ACCEPT)
            self._held.clear()

    async def close(self, *, after_error: bool) -> None:
        if self._is_open:
            for record in self.queue:
                self._held.pop((record.tp, record.offset), None)
            if not after_error:
                self.accept_rest()
            await self._member.close()  # releases what is not acknowledged
            self._is_open = False
        await self.client.close()
        self._resources.close()

    async def _open(self) -> None:
        if not self._is_open:
            await self._member.__aenter__()
            self._is_open = True

    def _raise_refusals(self) -> None:
        refusals, self._member.refusals = self._member.refusals, []
        if refusals:
            raise AcknowledgeError(_explained(refusals))

    def _record(self, taken: AcquiredRecord) -> ShareRecord | None:
        """A record that cannot be deserialized is rejected: no member could process it."""
        record = ConsumerRecord(*taken.record)
        try:
            if self._deserializers is not None:
                record = self._deserializers.apply(record)
        except SerializationError:
            self._member.answer(taken, AcknowledgeType.REJECT)
            return None
        return ShareRecord(*record, taken.delivery_count)


def _explained(refusals: list[Refusal]) -> str:
    first = refusals[0]
    count = sum(len(refusal.offsets) for refusal in refusals)
    return (
        f"{count} acknowledgements were rejected, the first at offset {first.offsets[0] if first.offsets else -1} of "
        f"{first.tp}: {first.error}. The records may be delivered again"
    )


class AsyncShareConsumer:
    """Share consumer for asyncio.

    async with AsyncShareConsumer("localhost:9092", topics="jobs", group_id="workers") as consumer:
        async for record in consumer:
            work(record.value)

    Implicit mode (the default) accepts a record when the next one is asked for. An exception that leaves the block
    releases what was not accepted.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        topics: str | Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        self._core = ShareCore("AsyncShareConsumer", bootstrap_servers, topics, config, options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.close(after_error=error is not None)

    async def close(self) -> None:
        await self._core.close(after_error=False)

    async def poll(
        self,
        timeout: float = 1.0,  # noqa: ASYNC109  # an empty result, not an exception
        max_records: int | None = None,
    ) -> list[ShareRecord]:
        return await self._core.take(max_records, timeout)

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        core = self._core
        while True:
            if not core.queue:
                core.queue.extend(await core.take(None, LONG))
            while core.queue:
                record = core.queue.popleft()
                yield record
                core.accept(record)

    def acknowledge(self, record: ShareRecord, answer: Answer = "accept") -> None:
        """accept, release (deliver again), reject (never deliver again) or renew (extend the lock)."""
        self._core.acknowledge(record, answer)

    async def commit(self) -> None:
        """Send acknowledgements now, not with the next poll. AcknowledgeError if some were rejected."""
        await self._core.commit()


class BlockingShareConsumer:
    """Share consumer; `barnabas.ShareConsumer`.

    with ShareConsumer("localhost:9092", topics="jobs", group_id="workers") as consumer:
        for record in consumer:
            work(record.value)

    Implicit mode (the default) accepts a record when the next one is asked for. An exception that leaves the block
    releases what was not accepted.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        topics: str | Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        self._loop = shared_loop()
        self._core = ShareCore("ShareConsumer", bootstrap_servers, topics, config, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._core.close(after_error=error is not None))

    def close(self) -> None:
        self._run(self._core.close(after_error=False))

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ShareRecord]:
        return self._run(self._core.take(max_records, timeout))

    def __iter__(self) -> Iterator[ShareRecord]:
        core = self._core
        while True:
            if not core.queue:
                core.queue.extend(self._run(core.take(None, LONG)))
            while core.queue:
                record = core.queue.popleft()
                yield record
                core.accept(record)

    def acknowledge(self, record: ShareRecord, answer: Answer = "accept") -> None:
        """accept, release (deliver again), reject (never deliver again) or renew (extend the lock)."""
        self._core.acknowledge(record, answer)

    def commit(self) -> None:
        """Send acknowledgements now, not with the next poll. AcknowledgeError if some were rejected."""
        self._run(self._core.commit())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)
