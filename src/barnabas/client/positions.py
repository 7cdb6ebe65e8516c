"""Where to start reading: the beginning, the end, an offset, the last N records, or a moment."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from barnabas.client.cluster import Client
from barnabas.client.offsets import EARLIEST, LATEST, beginning_offsets, end_offsets, list_offsets
from barnabas.common.types import TopicPartition

# Shorter numbers are offsets. As milliseconds this is the year 1973; as an offset, a hundred thousand million.
FIRST_TIMESTAMP = 100_000_000_000


@dataclass(frozen=True, slots=True)
class Start:
    kind: Literal["beginning", "end", "offset", "last", "time"]
    value: int = 0


def parse_start(text: str) -> Start:
    """`beginning`, `end`, `120`, `-10`, `1700000000000`, `2026-11-15T08:30`; ValueError for other texts."""
    word = text.strip().lower()
    if word in ("beginning", "earliest", "start"):
        return Start("beginning")
    if word in ("end", "latest"):
        return Start("end")
    if word.removeprefix("-").isdecimal():
        return _parse_number(int(word))
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is no place to start: write beginning, end, an offset such as 120, -10 for the last ten "
            "records, or a time such as 2026-11-15T08:30 or 1700000000000 (milliseconds)"
        ) from None
    return Start("time", int(moment.timestamp() * 1000))  # without a time zone, local time


def _parse_number(number: int) -> Start:
    if number < 0:
        return Start("last", -number)
    if number >= FIRST_TIMESTAMP:
        return Start("time", number)
    return Start("offset", number)


async def resolve_start(
    client: Client, partitions: Sequence[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """The offset in each partition from which to read."""
    if start.kind == "offset":
        return dict.fromkeys(partitions, start.value)
    if start.kind == "time":
        return await _resolve_time(client, partitions, start.value)
    if start.kind == "last":
        return await _resolve_last(client, partitions, start.value)
    word = EARLIEST if start.kind == "beginning" else LATEST
    answers = await list_offsets(client, dict.fromkeys(partitions, word))
    return {partition: answer.offset for partition, answer in answers.items()}


async def _resolve_time(
    client: Client, partitions: Sequence[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = await list_offsets(client, dict.fromkeys(partitions, moment))
    ends = await end_offsets(client, partitions)
    return {
        partition: answer.offset if answer.offset >= 0 else ends[partition]
        for partition, answer in found.items()
    }


async def _resolve_last(
    client: Client, partitions: Sequence[TopicPartition], count: int
) -> dict[TopicPartition, int]:
    """The last `count` offsets of each partition, as kcat counts them."""
    first = await beginning_offsets(client, partitions)
    ends = await end_offsets(client, partitions)
    return {partition: max(first[partition], ends[partition] - count) for partition in partitions}
