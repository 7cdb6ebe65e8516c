"""Python clients compared on one broker: records per CPU second and per second.

    python -m benchmarks.python_clients                 # three rounds; writes docs/proof/python-clients.md
    python -m benchmarks.python_clients --records 10000 --rounds 1 --to FILE

Each client runs in a separate process, one after the other, in rounds; figures are medians. CPU seconds are usable
on a busy machine, seconds are not.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from barnabas import Admin, Producer
from benchmarks.python_clients.client import JOBS, VALUE
from tests.support.brokers import BrokerProcess

RESULTS = Path(__file__).parents[2] / "docs/proof/python-clients.md"
PACKAGES = ("confluent-kafka", "kafka-python", "aiokafka")
PARTITIONS = 6
TARGETS = (
    ("produce", "barnabas, send", "confluent-kafka", 0.5),
    ("consume", "barnabas, Arrow batches", "aiokafka", 5.0),
)


class Rates(NamedTuple):
    per_cpu_second: float
    per_second: float


Results = dict[tuple[str, str], Rates]


def measure(bootstrap: str, records: int, rounds: int) -> Results:
    """Median rates of each job and client."""
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic("consume", partitions=PARTITIONS)
        for first in range(0, records, 10_000):
            producer.send_batch("consume", [VALUE] * min(10_000, records - first))
    found: dict[tuple[str, str], list[Rates]] = {}
    for number in range(rounds):
        for job, clients in JOBS.items():
            for client in clients:
                name = client.replace(", ", "-").replace(" ", "-")
                topic = job if job == "consume" else _new_topic(bootstrap, f"{name}-{number}")
                found.setdefault((job, client), []).append(_run(job, client, bootstrap, topic, records))
    return {key: Rates(*map(statistics.median, zip(*rates, strict=True))) for key, rates in found.items()}


def _new_topic(bootstrap: str, name: str) -> str:
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    return name


def _run(job: str, client: str, bootstrap: str, topic: str, records: int) -> Rates:
    command = [sys.executable, "-m", "benchmarks.python_clients.client", job, client, bootstrap, topic]
    done = subprocess.run(
        [*command, str(records)], stdout=subprocess.PIPE, text=True, check=True, timeout=900
    )
    result = json.loads(done.stdout)
    return Rates(result["records"] / result["cpu"], result["records"] / result["seconds"])


def page(results: Results, records: int, rounds: int, load: float) -> str:
    """The results as a page of docs/proof."""
    programs = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    about = (
        f"`make bench-clients`, {time.strftime('%d %B %Y')}: {records:,} records of {len(VALUE)} bytes, {PARTITIONS} "
        f"partitions of one Barnabas broker, uncompressed, idempotent producers with linger.ms=5; {programs}; Python "
        f"{platform.python_version()}, {os.cpu_count()} cores with a load of {load:.0f}; medians of {rounds} rounds. "
        "CPU seconds are those of the client's process, with all of its threads. They hardly depend on other load; "
        "records per second do.\n"
    )
    lines = ["# Python clients compared\n", about]
    for job, clients in JOBS.items():
        lines += [f"| {job} | records per CPU second | records per second |", "|---|---|---|"]
        for client in clients:
            rates = results[job, client]
            lines.append(f"| {client} | {rates.per_cpu_second:,.0f} | {rates.per_second:,.0f} |")
        lines.append("")
    lines += ["| target | per CPU second | | by the clock |", "|---|---|---|---|"]
    for job, subject, reference, target in TARGETS:
        ours, theirs = results[job, subject], results[job, reference]
        ratio, by_clock = ours.per_cpu_second / theirs.per_cpu_second, ours.per_second / theirs.per_second
        verdict = "met" if ratio >= target else "missed"
        lines.append(
            f"| {job}: {subject} >= {target:g} x {reference} | {ratio:.2f} x | {verdict} | {by_clock:.2f} x |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        results = measure(broker.bootstrap_servers, options.records, options.rounds)
    text = page(results, options.records, options.rounds, os.getloadavg()[1])
    options.to.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
