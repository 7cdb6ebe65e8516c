"""`barnabas consume`: records of topics on the terminal or into a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    OutputFormat,
    complete_group,
    complete_topic,
    with_client,
)
from barnabas.cli.output import count as number_of
from barnabas.cli.output import say
from barnabas.cli.records.schemas import RegistryUrl, decoding, registry_client

if TYPE_CHECKING:
    from barnabas.client import Client, ConsumedRecord, Consumer
    from barnabas.client.consuming import GroupConsumer
    from barnabas.client.offsets import Start
    from barnabas.client.schemas.client import SchemaClient
    from barnabas.common.types import TopicPartition
    from barnabas.filters import Filter

Write = Callable[["ConsumedRecord"], bytes]

POLL_SECONDS = 1.0
END_SECONDS = 0.1  # between two checks whether a group has read everything


@dataclass
class ConsumePlan:
    """The topics to read, the start position and the stop conditions."""

    topics: list[str]
    partitions: list[int]
    start: Start
    limit: int | None
    exit_at_end: bool
    committed_only: bool
    write: Write
    where: Filter | None = None
    group: str | None = None

    def wanted(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        return records if self.where is None else list(filter(self.where.matches, records))


def consume(
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help="One or more topics.", autocompletion=complete_topic),
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-s",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N, a time (2026-11-15T08:30, or milliseconds).",
        ),
    ] = "end",
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this number of records.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the current end of the log.")
    ] = False,
    record_format: Annotated[
        str | None,
        typer.Option("--format", "-f", help=r"Such as '%t-%p %o %T %k=%v %h\n'; %% and \n as usual."),
    ] = None,
    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", help="A formatted line or a line of JSON per record [values only]."),
    ] = None,
    committed: Annotated[
        bool, typer.Option("--committed", help="Skip records of open and aborted transactions.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only records that match, e.g. 'record.value.amount > 10'."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as a member of this group, from its committed offsets, and commit.",
            autocompletion=complete_group,
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Decode values with their registered schemas, as JSON.")
    ] = False,
    registry: RegistryUrl = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    r"""Read records.

    Without --format or -o, values are written one per line. Directives of --format: %t topic,
    %p partition, %o offset, %T timestamp, %d date, %k key, %K its length, %v value, %V its length, %h headers.

    Filters are CEL: record.value.FIELD, record.key, keyAsText, valueAsText, headers, timestamp, partition, offset.

    With --group, --from applies to partitions without a committed offset. A member needs READ
    on the group and on the topics; without a group READ on the topics is enough.

    Examples:

      barnabas consume orders --from beginning --exit-at-end

      barnabas consume orders --from -10 -o json

      barnabas consume orders --from beginning --schema

      barnabas consume orders --from 2026-11-15T08:30 --format '%p:%o %k %v\n'

      barnabas consume orders --from beginning --where 'record.value.country == "DE"'

      barnabas consume orders --group billing
    """
    from barnabas.client.offsets import parse_start

    if group is not None and partition:
        raise typer.BadParameter("a group assigns partitions to its members", param_hint="--partition")
    try:
        begin, write = parse_start(start), choose_writer(record_format, output)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with ExitStack() as opened:
        client = opened.enter_context(registry_client(registry, bootstrap)) if schema else None
        wanted = parse_filter(where, client)
        plan = ConsumePlan(
            topics, partition or [], begin, count, exit_at_end, committed, write, wanted, group
        )
        if client is not None:
            plan.write = decoding(write, client, output)
        work = consume_plan if group is None else consume_in_group
        read = with_client(bootstrap, lambda client: work(client, plan))
    if wanted is not None and wanted.failures.count:
        say(f"--where: {wanted.failures}.")
    if sys.stderr.isatty():
        say(f"{number_of(read, 'record')} read.")


def parse_filter(text: str | None, client: SchemaClient | None = None) -> Filter | None:
    """Compile a filter. An invalid one is a usage error with its column. With a registry, it is applied to decoded
    values."""
    if text is None:
        return None
    from barnabas.filters import Filter, FilterError

    decode = None
    if client is not None:
        from barnabas.client.schemas import SchemaDecoder

        decode = SchemaDecoder(client)
    try:
        return Filter(text, decode)
    except FilterError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None


def choose_writer(record_format: str | None, output: OutputFormat | None) -> Write:
    from barnabas.cli.records.format import DEFAULT_FORMAT, HUMAN_FORMAT, compile_format, to_json

    if record_format is not None:
        return compile_format(record_format)
    if output is OutputFormat.JSON:
        return to_json
    return compile_format(DEFAULT_FORMAT if output is None else HUMAN_FORMAT)


async def consume_plan(client: Client, plan: ConsumePlan) -> int:
    from barnabas.client import Consumer, FetchSettings
    from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, end_offsets, resolve_start

    isolation = READ_COMMITTED if plan.committed_only else READ_UNCOMMITTED
    partitions = await _partitions(client, plan)
    positions = await resolve_start(client, partitions, plan.start)
    ends = await end_offsets(client, partitions, isolation) if plan.exit_at_end else {}
    positions = {tp: offset for tp, offset in positions.items() if _has_more(offset, ends.get(tp))}
    async with Consumer(client, positions, FetchSettings(isolation=isolation)) as consumer:
        return await _write_all(consumer, ends, plan)


async def _partitions(client: Client, plan: ConsumePlan) -> list[TopicPartition]:
    from barnabas.common.types import TopicPartition

    found = await client.topics(plan.topics)
    wanted = [
        TopicPartition(name, index)
        for name, topic in found.items()
        for index in plan.partitions or topic.partitions
    ]
    for partition in wanted:
        client.metadata.partition(partition)  # raises with the existing partitions if this one is missing
    return wanted


async def _write_all(consumer: Consumer, ends: dict[TopicPartition, int], plan: ConsumePlan) -> int:
    out = sys.stdout.buffer
    written = 0
    waiting = consumer.partitions if plan.exit_at_end else set()
    while written != plan.limit and (waiting or not plan.exit_at_end):
        records = await consumer.poll(POLL_SECONDS)
        if plan.exit_at_end:
            records = [record for record in records if record.offset < ends[record.tp]]
        records = plan.wanted(records)
        if plan.limit is not None:
            records = records[: plan.limit - written]
        out.write(b"".join([plan.write(record) for record in records]))
        out.flush()
        written += len(records)
        if not records and is_reader_closed(sys.stdout):
            break
        for tp in [tp for tp in waiting if not _has_more(consumer.position(tp), ends[tp])]:
            waiting.discard(tp)
            consumer.remove(tp)
    return written


async def consume_in_group(client: Client, plan: ConsumePlan) -> int:
    """Commit written records. With --exit-at-end, read each partition up to its end at the time of assignment."""
    from barnabas.client import FetchSettings
    from barnabas.client.consuming import GroupConsumer
    from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, end_offsets
    from barnabas.common.types import TopicPartition

    assert plan.group is not None
    isolation = READ_COMMITTED if plan.committed_only else READ_UNCOMMITTED
    settings = FetchSettings(isolation=isolation)
    written, ends = 0, dict[TopicPartition, int]()
    async with GroupConsumer(client, plan.group, plan.topics, plan.start, settings) as consumer:
        while written != plan.limit:
            records = await consumer.poll(END_SECONDS if plan.exit_at_end else POLL_SECONDS)
            written += _write_some(consumer, records, plan, written)
            if not records and is_reader_closed(sys.stdout):
                break
            if plan.exit_at_end:
                new = sorted(consumer.partitions - ends.keys())
                ends |= await end_offsets(client, new, isolation) if new else {}
                if consumer.is_settled and not any(
                    _has_more(consumer.position(tp), ends[tp]) for tp in consumer.partitions
                ):
                    break
    return written


def _write_some(
    consumer: GroupConsumer, records: list[ConsumedRecord], plan: ConsumePlan, written: int
) -> int:
    wanted = plan.wanted(records)
    if plan.limit is not None and len(wanted) > plan.limit - written:
        wanted = wanted[: plan.limit - written]
        consumer.give_back(records[records.index(wanted[-1]) + 1 :])
    sys.stdout.buffer.write(b"".join([plan.write(record) for record in wanted]))
    sys.stdout.buffer.flush()
    return len(wanted)


def is_reader_closed(stream: TextIO) -> bool:
    """Return True if the other end of a pipe is closed. Without records to write, no write fails."""
    import select

    try:
        watch = select.poll()
        watch.register(stream.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # no poll, or no real file behind the stream
        return False
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in watch.poll(0))


def _has_more(position: int, end: int | None) -> bool:
    return end is None or position < end
