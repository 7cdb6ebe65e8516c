"""`barnabas produce`: records from standard input, files or the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    TIMEOUT,
    Bootstrap,
    Headers,
    Output,
    OutputFormat,
    complete_topic,
    parse_headers,
    with_client,
)
from barnabas.cli.output import count, say, show_json, size
from barnabas.cli.records.schemas import RegistryUrl, encoded, encoder_for

if TYPE_CHECKING:
    from barnabas.client import Client, ProducerSettings
    from barnabas.client.schemas import Encoder


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"

    @property
    def number(self) -> int:
        return -1 if self is Acks.ALL else int(self)


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None


@dataclass
class ProducePlan:
    topic: str
    partition: int | None
    headers: list[tuple[str, bytes | None]]
    key: bytes | None
    values: list[bytes]
    files: list[Path]
    whole_files: bool
    key_separator: bytes | None
    null: bytes | None
    settings: ProducerSettings
    encoder: Encoder | None = None


class Total(NamedTuple):
    records: int
    bytes: int
    seconds: float


def produce(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="The topic; created if the broker allows it.", autocompletion=complete_topic
        ),
    ],
    value: Annotated[
        list[str] | None, typer.Option("--value", "-v", help="A record's value, instead of standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="The separator between key and value in a line."),
    ] = None,
    header: Headers = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Read lines from files, not standard input.")
    ] = None,
    whole_files: Annotated[bool, typer.Option("--whole-files", help="One record for each --file.")] = False,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="Keys and values equal to this are null.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="[by key, or any]")
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="Compression codec of batches.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option(help="Required acknowledgements: 0, 1 or all.")] = Acks.ALL,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Values are JSON; encode them with the latest schema of TOPIC-value."),
    ] = False,
    registry: RegistryUrl = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write records: each line of standard input is a record.

    Examples:

      echo hello | barnabas produce greetings

      barnabas produce orders --key 17 --value '{"total": 9.5}' --header source=shop

      barnabas produce orders --schema --value '{"total": 9.5}'

      barnabas produce orders --file orders.txt --key-separator : --compression zstd
    """
    from barnabas.client import ProducerSettings

    plan = ProducePlan(
        topic,
        partition,
        parse_headers(header),
        None if key is None else key.encode(),
        [text.encode() for text in value or ()],
        file or [],
        whole_files,
        None if key_separator is None else _unescape(key_separator),
        None if null is None else null.encode(),
        ProducerSettings(acks=acks.number, compression=compression, delivery_timeout=TIMEOUT),
        encoder_for(topic, registry, bootstrap) if schema else None,
    )
    total = with_client(bootstrap, lambda client: _produce(client, plan))
    if output is OutputFormat.JSON:
        show_json({"topic": topic, **total._asdict()})
    else:
        say(f"{count(total.records, 'record')} ({size(total.bytes)}) sent to {topic}.")


async def _produce(client: Client, plan: ProducePlan) -> Total:
    from barnabas.cli.output import ProgressBar
    from barnabas.client import Producer

    start, sent, sent_bytes = time.monotonic(), 0, 0
    total_bytes = sum(path.stat().st_size for path in plan.files) or None
    async with Producer(client, plan.settings) as producer:
        with ProgressBar(f"to {plan.topic}", total_bytes) as progress:
            async for record in _records(plan):
                await producer.enqueue(
                    plan.topic, record.value, record.key, partition=plan.partition, headers=plan.headers
                )
                sent += 1
                sent_bytes += len(record.key or b"") + len(record.value or b"")
                if sent % 1000 == 0:
                    progress.reached(sent_bytes)
            await producer.flush()
    return Total(sent, sent_bytes, round(time.monotonic() - start, 3))


async def _records(plan: ProducePlan) -> AsyncIterator[NewRecord]:
    async for text in _texts(plan):
        record = split_record(text, plan)
        if plan.encoder is not None:
            record = record._replace(value=encoded(plan.encoder, record.value))
        yield record


async def _texts(plan: ProducePlan) -> AsyncIterator[bytes]:
    from barnabas.cli.records.lines import read_lines

    for value in plan.values:
        yield value
    for path in plan.files:
        if plan.whole_files:
            yield path.read_bytes()
            continue
        with path.open("rb") as lines:
            async for line in read_lines(lines):
                yield line
    if not plan.values and not plan.files:
        if sys.stdin.isatty():
            say(f"Each line becomes a record of {plan.topic}; Ctrl-D ends.")
        async for line in read_lines(sys.stdin.buffer):
            yield line


def split_record(text: bytes, plan: ProducePlan) -> NewRecord:
    """Key and value of one line."""
    key: bytes | None = plan.key
    value: bytes | None = text
    if plan.key_separator is not None and plan.key_separator in text:
        key, _, value = text.partition(plan.key_separator)
    return NewRecord(None if key == plan.null else key, None if value == plan.null else value)


def _unescape(text: str) -> bytes:
    """A tab cannot be typed easily: `\\t` is accepted."""
    return text.replace("\\t", "\t").encode()
