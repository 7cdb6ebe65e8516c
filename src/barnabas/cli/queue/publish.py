"""Puts jobs into a queue, optionally delayed."""

from __future__ import annotations

import datetime
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import typer

from barnabas.cli.output import say
from barnabas.cli.records.lines import read_lines
from barnabas.records.delays import DELAY_HEADER, DELIVER_AT_HEADER

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.records import Header

DELAY_SETTING = "barnabas.delay.enable"


def delivery_headers(delay: str | None, at: str | None) -> list[Header]:
    """The headers that delay a job. Raises a usage error for an invalid time."""
    from barnabas.common.durations import seconds_of

    if delay is not None and at is not None:
        raise typer.BadParameter("either --delay or --at")
    try:
        if delay is not None:
            return [(DELAY_HEADER, str(round(seconds_of(delay) * 1000)).encode())]
        if at is not None:
            time_text = datetime.datetime.fromisoformat(at)
            return [(DELIVER_AT_HEADER, str(round(time_text.timestamp() * 1000)).encode())]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--delay" if delay else "--at") from None
    return []


async def publish_jobs(
    client: Client, topic: str, jobs: list[bytes] | None, key: bytes | None, headers: list[Header]
) -> int:
    from barnabas.client import Producer

    if any(name in (DELAY_HEADER, DELIVER_AT_HEADER) for name, _ in headers):
        await _check_delays(client, topic)
    published = 0
    async with Producer(client) as producer:
        async for job in _jobs(topic, jobs):
            await producer.enqueue(topic, job, key, headers=headers)
            published += 1
        await producer.flush()
    return published


async def _check_delays(client: Client, topic: str) -> None:
    """Raise if delays are off: the broker would silently ignore the headers."""
    from barnabas.client.admin import TOPIC, describe_configs

    await client.topics([topic])
    configs = await describe_configs(client, TOPIC, topic)
    if not any(config.name == DELAY_SETTING and config.value == "true" for config in configs):
        raise typer.BadParameter(
            f"{topic} delivers at once; delays need `barnabas configs set topic {topic} {DELAY_SETTING}=true`"
        )


async def _jobs(topic: str, jobs: list[bytes] | None) -> AsyncIterator[bytes]:
    if jobs is not None:
        for job in jobs:
            yield job
        return
    if sys.stdin.isatty():
        say(f"Each line becomes a job of {topic}; Ctrl-D ends.")
    async for line in read_lines(sys.stdin.buffer):
        yield line
