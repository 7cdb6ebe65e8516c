"""`barnabas bench --processes`: nodes with 1, 2, ... processes, started here one by one under the same load."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

from barnabas.cli.bench.report import LABEL, bar
from barnabas.cli.cluster.local_cluster import BrokerChild
from barnabas.client import Client
from barnabas.client.admin import create_topic
from barnabas.common.cpus import usable_cpus

TOPIC = "barnabas-bench"
PARTITIONS_EACH = 4  # for each process of the largest node
MAX_COUNT = 64


class ProcessesRow(NamedTuple):
    """Result for one number of processes. `cpu_seconds` are those of the node; None where /proc does not have them."""

    processes: int
    records: int
    records_per_second: float
    cpu_seconds: float | None

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = self._asdict()
        row["records_per_second"] = round(self.records_per_second, 1)
        if self.cpu_seconds is not None:
            row["cpu_us_per_record"] = round(self.cpu_seconds / max(self.records, 1) * 1e6, 2)
        return row


def parse_counts(text: str) -> list[int]:
    """`1,2,4`, or `auto`: powers of two up to the number of usable CPUs, and that number."""
    if text == "auto":
        cpus = usable_cpus()
        return sorted({1 << power for power in range(cpus.bit_length())} | {cpus})
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = [0]
    if not all(1 <= each <= MAX_COUNT for each in counts):
        raise typer.BadParameter(
            f"not a list of numbers from 1 to {MAX_COUNT}: {text!r}", param_hint="--processes"
        )
    return counts


def compare(counts: Sequence[int], records: int, options: Sequence[str]) -> Iterator[ProcessesRow]:
    """Run the load on each node, by as many load generators; `options` are those of `bench produce`."""
    generators = max(counts)
    for count in counts:
        with _node(count) as node:
            asyncio.run(_create(node.address, PARTITIONS_EACH * generators))
            before = _cpu_seconds(node.pid)
            rates = _generate(node.address, generators, records // generators, options)
            after = _cpu_seconds(node.pid)
            used = None if before is None or after is None else after - before
            yield ProcessesRow(count, records // generators * generators, sum(rates), used)


@contextmanager
def _node(count: int) -> Iterator[BrokerChild]:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        arguments = ["--data", f"{folder}/data", "--listen", "127.0.0.1:0", "--processes", str(count)]
        node = BrokerChild(1, Path(folder), arguments)
        try:
            node.wait_until_ready()
            yield node
        finally:
            node.ask_to_stop()
            node.end()


async def _create(address: str, partitions: int) -> None:
    async with Client(address, client_id="barnabas-bench") as client:
        await create_topic(client, TOPIC, partitions=partitions, replication_factor=1)


def _generate(address: str, generators: int, records: int, options: Sequence[str]) -> list[float]:
    """Records per second of each load generator, which is a process."""
    command = [sys.executable, "-m", "barnabas", "bench", "produce", "--bootstrap-server", address]
    command += ["--topic", TOPIC, "--records", str(records), "--output", "json", *options]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(generators)
    ]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise typer.BadParameter("a load generator has failed: try fewer --records", param_hint="--processes")
    return [json.loads(output)[0]["records_per_second"] for output in outputs]


def _cpu_seconds(pid: int) -> float | None:
    """CPU time of a node and its processes so far."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        texts = [Path(f"/proc/{each}/stat").read_text() for each in (pid, *children)]
    except OSError:
        return None
    fields = [text.rpartition(")")[2].split() for text in texts]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def show_rows(rows: Sequence[ProcessesRow]) -> None:
    largest = max(row.records_per_second for row in rows)
    first = rows[0].records_per_second
    for row in rows:
        label = f"{row.processes} process{'es' if row.processes > 1 else ''}"
        text = f"{row.records_per_second:>10,.0f} records/s  {row.records_per_second / first:.2f} x"
        if row.cpu_seconds is not None:
            each = row.cpu_seconds / max(row.records, 1)
            text += f"  {row.cpu_seconds:6.2f} CPU s, {each * 1e6:.1f} us each"
        typer.echo(f"  {label:<{LABEL}} {bar(row.records_per_second / largest)} {text}")
