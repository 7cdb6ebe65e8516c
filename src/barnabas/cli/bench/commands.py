"""`barnabas bench`: measure the throughput and latency of one cluster, or compare two."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    command_security,
    complete_topic,
)
from barnabas.cli.output import show_json
from barnabas.cli.records.produce import Acks, Compression

if TYPE_CHECKING:
    from barnabas.client.security import ClientSecurity


class BenchTest(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"
    LATENCY = "latency"
    GROUPS = "groups"


def bench(
    tests: Annotated[
        list[BenchTest] | None,
        typer.Argument(metavar="[TEST]...", help="produce, consume, latency, groups [all]."),
    ] = None,
    records: Annotated[
        int, typer.Option("--records", "-n", min=1, help="Number of records to produce and consume.")
    ] = 100_000,
    record_size: Annotated[int, typer.Option("--size", "-s", min=0, help="Size of a value in bytes.")] = 100,
    rate: Annotated[
        float | None,
        typer.Option("--rate", "-r", min=0.1, help="Rate of `produce` in records per second [no limit]."),
    ] = None,
    latency_rate: Annotated[
        float,
        typer.Option(min=0.1, max=10_000, help="Rate of `latency` in records per second, for five seconds."),
    ] = 200,
    members: Annotated[
        int, typer.Option(min=1, max=100, help="Number of members that join in `groups`.")
    ] = 3,
    topic: Annotated[
        str | None,
        typer.Option(
            help="An existing topic [a new one, deleted afterwards].", autocompletion=complete_topic
        ),
    ] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, help="Partitions of the new topic.")
    ] = 3,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Replication factor of the new topic [the broker's default].")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Required acknowledgements: 0, 1 or all.")] = Acks.ALL,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="Of batches.")
    ] = Compression.NONE,
    batch_size: Annotated[int, typer.Option(min=1, help="Maximum batch size in bytes.")] = 64 * 1024,
    linger_ms: Annotated[float, typer.Option(min=0, help="Time that a batch waits for more records.")] = 5.0,
    against: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A second cluster to compare with, measured alternately."),
    ] = None,
    against_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TLS and SASL settings of the second cluster (as --command-config)."
        ),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...|auto",
            help="Start nodes with so many processes here, and compare their rates and CPU time for `produce`.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Measure rates and latencies of a cluster, with percentiles and charts.

    produce: random records as fast as possible, with the time until they are acknowledged. consume: the topic from its
    beginning. latency: single records at a steady rate, until a consumer has them. groups: members join, offsets are
    committed. All results include this client, a single Python process: compare clusters, not absolute rates.

    Examples:

      barnabas bench

      barnabas bench produce consume --records 1000000 --size 1000

      barnabas bench --bootstrap-server barnabas:9092 --against kafka:9092

      barnabas bench --processes 1,2,4
    """
    if processes is not None:
        options = ["--size", str(record_size), "--acks", acks.value, "--compression", compression.value]
        options += ["--batch-size", str(batch_size), "--linger-ms", str(linger_ms)]
        _compare_processes(processes, records, options, output)
        return
    import asyncio

    from barnabas.cli.bench.measurements import BenchTopic, Workload, run_tests
    from barnabas.cli.bench.report import as_json, show_test
    from barnabas.client import ProducerSettings

    names = [test.value for test in tests or BenchTest]
    if topic is None and "consume" in names and "produce" not in names:
        raise typer.BadParameter(
            "a new topic has no records: add `produce`, or give --topic", param_hint="TEST"
        )
    settings = ProducerSettings(
        acks=acks.number, compression=compression, batch_bytes=batch_size, linger=linger_ms / 1000
    )
    load = Workload(topic or "", records, record_size, rate, latency_rate, members, settings)
    new_topic = None if topic else BenchTopic(partitions, replication_factor)
    clusters = _clusters(bootstrap, against, against_config)
    show = (lambda results: None) if output is OutputFormat.JSON else show_test
    results = asyncio.run(run_tests(clusters, names, load, new_topic, show))
    if output is OutputFormat.JSON:
        show_json(as_json(results))


def _compare_processes(counts: str, records: int, options: list[str], output: OutputFormat) -> None:
    from barnabas.cli.bench.all_cores import compare, parse_counts, show_rows

    rows = list(compare(parse_counts(counts), records, options))
    if output is OutputFormat.JSON:
        show_json([row.as_json() for row in rows])
    else:
        show_rows(rows)


def _clusters(bootstrap: str, against: str | None, against_config: Path | None) -> dict[str, ClientSecurity]:
    """Security settings by address."""
    from barnabas.client.security import parse_security, read_properties

    clusters = {bootstrap: command_security()}
    if against == bootstrap:
        raise typer.BadParameter("is also the first cluster", param_hint="--against")
    if against is not None:
        properties = {} if against_config is None else read_properties("--against-config", against_config)
        clusters[against] = parse_security(properties, references=True)
    return clusters
