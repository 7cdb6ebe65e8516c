"""Takes jobs from a queue: shows them, holds them, or gives each to a command."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.admin import GROUP, ConfigChange, alter_configs, describe_configs
from barnabas.client.groups import describe_share_group
from barnabas.client.share import (
    AcknowledgeType,
    AcquiredRecord,
    Refusal,
    ShareConsumer,
    new_lease,
    receipt_of,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Deadline

if TYPE_CHECKING:
    from barnabas.client import Client

DONE, BAD_DATA = 0, 65  # exit codes; 65 is EX_DATAERR of sysexits.h
START = "share.auto.offset.reset"
OF_THE_GROUP = 8  # the source of a setting, in DescribeConfigs
RENEW_EVERY = 10.0  # seconds; a third of the usual lock


@dataclass(frozen=True)
class TakeSettings:
    topic: str
    group: str
    count: int
    wait: float
    then: str | None
    command: str | None

    @property
    def is_lease(self) -> bool:
        return self.then is None and self.command is None


Row = dict[str, Any]


async def take_jobs(client: Client, taking: TakeSettings) -> tuple[list[Row], list[Refusal]]:
    await _begin_with_the_oldest(client, taking.group)
    member_id = new_lease() if taking.is_lease else ""
    consumer = ShareConsumer(client, taking.group, [taking.topic], member_id)
    async with consumer if not taking.is_lease else _UnclosedConsumer(consumer):
        if taking.command is not None:
            rows = await _run_all(consumer, taking, taking.command)
        else:
            rows = [_row(taken) for taken in await _collect(consumer, taking)]
            for row in rows:
                _settle(consumer, row, taking)
        if not taking.is_lease:
            await consumer.flush()
    for row in rows:
        del row["taken"]
    return rows, consumer.refusals


async def _begin_with_the_oldest(client: Client, group: str) -> None:
    """Begin a new group with the oldest job: Kafka's default is the newest."""
    try:
        await describe_share_group(client, group)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        configs = await describe_configs(client, GROUP, group)
        if not any(config.name == START and config.config_source == OF_THE_GROUP for config in configs):
            await alter_configs(client, GROUP, group, [ConfigChange(START, "earliest")])


class _UnclosedConsumer:
    """Consumer that is not closed at the end: it holds its jobs until the locks expire."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer

    async def __aenter__(self) -> None:
        await self._consumer.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()


async def _collect(consumer: ShareConsumer, taking: TakeSettings) -> list[AcquiredRecord]:
    """Wait for the first job; also take those available already."""
    taken = await consumer.take(taking.count, taking.wait)
    while taken and len(taken) < taking.count:
        more = await consumer.take(taking.count - len(taken), timeout_seconds=0)
        if not more:
            break
        taken += more
    return taken


def _settle(consumer: ShareConsumer, row: Row, taking: TakeSettings) -> None:
    taken: AcquiredRecord = row["taken"]
    if taking.then is None:
        row["receipt"] = str(receipt_of(taking.group, consumer.member.member_id, taken))
    else:
        row["answer"] = taking.then
        consumer.answer(taken, AcknowledgeType[taking.then.upper()])


async def _run_all(consumer: ShareConsumer, taking: TakeSettings, command: str) -> list[Row]:
    """Run jobs sequentially, so that no lock expires while its job waits."""
    rows: list[Row] = []
    deadline = Deadline(taking.wait)
    while len(rows) < taking.count:
        taken = await consumer.take(1, deadline.remaining)
        if not taken:
            break
        row = _row(taken[0])
        answer = await _run(consumer, taken[0], command)
        row["answer"] = answer.name.lower()
        consumer.answer(taken[0], answer)
        rows.append(row)
        deadline = Deadline(taking.wait)
    return rows


async def _run(consumer: ShareConsumer, taken: AcquiredRecord, command: str) -> AcknowledgeType:
    process = await asyncio.create_subprocess_shell(command, stdin=asyncio.subprocess.PIPE)
    working = asyncio.create_task(process.communicate(taken.record.value or b""))
    while not (await asyncio.wait({working}, timeout=RENEW_EVERY))[0]:
        await consumer.renew([taken])
    if process.returncode == DONE:
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.REJECT if process.returncode == BAD_DATA else AcknowledgeType.RELEASE


def _row(taken: AcquiredRecord) -> Row:
    record = taken.record
    return {
        "taken": taken,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "place": f"{record.partition}:{record.offset}",
        "deliveries": taken.delivery_count,
        "key": _text(record.key),
        "value": _text(record.value),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
