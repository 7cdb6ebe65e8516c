"""Faults x loads: `make chaos CHAOS="--seed 7 --minutes 10 --client java"`.

`--security SASL_SSL`: brokers and clients talk TLS and log in. `--tiered`: segments go to an object store.
`--zookeepers 3`: an ensemble, whose servers are killed, cut off and restarted too.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos import java, librdkafka
from tests.chaos.checks import check
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import ENSEMBLE_FAULTS, FAULTS, STORE_FAULTS, Fault, Scene
from tests.chaos.loads import PARTITIONS, Load
from tests.chaos.security import PLAINTEXT, PROTOCOLS
from tests.chaos.tiers import TOPIC_SETTINGS
from tests.support.waiting import SECONDS

LOADS: tuple[type[Load], ...] = (
    librdkafka.IdempotentLoad,
    librdkafka.TransactionalLoad,
    java.IdempotentLoad,
    java.TransactionalLoad,
)


class Outcome(NamedTuple):
    fault: Fault
    load: type[Load]
    records: int = 0
    gap: float = 0.0
    problem: str = ""


def run_one(
    cluster: ChaosCluster, fault: Fault, load_class: type[Load], number: int, slack: float = 1.0
) -> Outcome:
    """Run one fault under one load, on a separate topic. Errors are in the outcome, not raised. `slack` multiplies
    the allowed time without acknowledgements, for busy machines."""
    topic = f"chaos-{number}"
    _create(cluster, topic)
    load = load_class(cluster.clients, topic)
    gap = 0.0
    try:
        with load:
            scene = Scene(cluster, topic, load)
            scene.go_on()
            began = time.monotonic()
            fault.action(scene, fault.role)
            scene.whole()
            scene.go_on()
            gap = load.longest_gap(began, time.monotonic())
        check(cluster, topic, load)
        problem = _too_long(fault, gap, slack)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return Outcome(fault, load_class, load.count, gap, problem)


def _too_long(fault: Fault, gap: float, slack: float) -> str:
    if fault.allowed_gap is not None and gap > fault.allowed_gap * slack:
        return f"nothing was acknowledged for {gap:.1f} s, {fault.allowed_gap:g} s are allowed"
    return ""


def _create(cluster: ChaosCluster, topic: str) -> None:
    admin = AdminClient(cluster.clients.confluent)
    config = TOPIC_SETTINGS if cluster.store is not None else {}
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 3, config=config)]).values():
        created.result(SECONDS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of the order of the runs")
    parser.add_argument("--minutes", type=float, default=45.0, help="no run begins after this time")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--only", default="", help="only faults in whose name this pattern is found")
    parser.add_argument("--client", choices=("java", "librdkafka", "both"), default="both")
    parser.add_argument("--load", choices=("idempotent", "transactional", "both"), default="both")
    parser.add_argument(
        "--security", choices=PROTOCOLS, default=PLAINTEXT, help="of brokers among each other and of clients"
    )
    parser.add_argument(
        "--tiered",
        action="store_true",
        help="topics with segments in an object store, to which things happen too",
    )
    parser.add_argument(
        "--zookeepers", type=int, default=1, help="servers; with 3, things happen to them too"
    )
    parser.add_argument("--table", type=Path, help="a file to write the outcomes to, as Markdown")
    options = parser.parse_args(arguments)
    print(
        f"seed {options.seed}, {options.brokers} brokers, {options.security}, at most {options.minutes:g} minutes",
        flush=True,
    )
    print(f"{'fault':44} {'client':10} {'load':13} {'records':>8} {'gap':>7}  problem", flush=True)
    outcomes: list[Outcome] = []
    with _folder_for_logs(outcomes) as folder:
        try:
            for outcome in _run(options, folder):
                print(_line(outcome), flush=True)
                outcomes.append(outcome)
        finally:
            if options.table is not None:
                options.table.write_text(as_markdown(outcomes))
    failed = sum(bool(outcome.problem) for outcome in outcomes)
    print(f"{len(outcomes)} runs, {failed} with a problem (seed {options.seed})")
    return 1 if failed else 0


@contextmanager
def _folder_for_logs(outcomes: Sequence[Outcome]) -> Iterator[Path]:
    """Keep the logs for analysis if the run failed."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-chaos-"))
    has_ended = False
    try:
        yield folder
        has_ended = True
    finally:
        if has_ended and not any(outcome.problem for outcome in outcomes):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"what the brokers said and stored is in {folder}", flush=True)


def _run(options: argparse.Namespace, folder: Path) -> Iterator[Outcome]:
    """Most faults on one cluster after the other; those that need more brokers on a larger one."""
    possible = (
        *(ENSEMBLE_FAULTS if options.zookeepers > 1 else ()),
        *(STORE_FAULTS if options.tiered else ()),
        *FAULTS,
    )
    wanted = [fault for fault in possible if re.search(options.only, fault.name)]
    loads = [
        load
        for load in LOADS
        if options.client in (load.client, "both") and options.load in (load.kind, "both")
    ]
    deadline = time.monotonic() + 60 * options.minutes
    for brokers in sorted({max(fault.brokers, options.brokers) for fault in wanted}):
        runs = [
            (fault, load)
            for fault in wanted
            if max(fault.brokers, options.brokers) == brokers
            for load in loads
        ]
        random.Random(options.seed).shuffle(runs)
        with ChaosCluster(
            folder / f"{brokers}-brokers",
            brokers,
            protocol=options.security,
            tiered=options.tiered,
            zookeepers=options.zookeepers,
        ) as cluster:
            if cluster.store is not None:
                print(f"segments go to {cluster.store.name}", flush=True)
            yield from _run_all(cluster, runs, deadline)


def _run_all(
    cluster: ChaosCluster, runs: Sequence[tuple[Fault, type[Load]]], deadline: float
) -> Iterator[Outcome]:
    for number, (fault, load) in enumerate(runs, 1):
        if time.monotonic() > deadline:
            outcome = Outcome(fault, load, problem="not run: no time was left")
        elif obstacle := fault.obstacle(cluster):
            outcome = Outcome(fault, load, problem=f"not run: {obstacle}")
        else:
            outcome = run_one(cluster, fault, load, number)
        yield outcome
        cluster.make_whole()


def _line(outcome: Outcome) -> str:
    load = outcome.load
    shown = (
        f"{outcome.fault.name:44} {load.client:10} {load.kind:13} {outcome.records:8d} {outcome.gap:6.1f}s"
    )
    return f"{shown}  {outcome.problem}".rstrip()


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """A line for each fault and a column for each load: the longest gap, and how many records were acknowledged."""
    loads = [load for load in LOADS if any(outcome.load is load for outcome in outcomes)]
    lines = [
        "| fault | allowed | " + " | ".join(f"{load.client}, {load.kind}" for load in loads) + " |",
        "|---|---:|" + "---:|" * len(loads),
    ]
    for fault in (*ENSEMBLE_FAULTS, *STORE_FAULTS, *FAULTS):
        found = {outcome.load: outcome for outcome in outcomes if outcome.fault is fault}
        if found:
            allowed = "" if fault.allowed_gap is None else f"{fault.allowed_gap:g} s"
            cells = [_cell(found[load]) if load in found else "" for load in loads]
            lines.append(f"| {fault.name} | {allowed} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(outcome: Outcome) -> str:
    problem = outcome.problem.partition("\n")[0]
    shown = f"{outcome.gap:.1f} s ({outcome.records})"
    return f"{shown} **{problem}**" if problem else shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
