"""Registries are killed while clients register schemas: ids are unique and responses durable.

    python -m tests.services.registry.chaos --minutes 10

A broker, four registries, eight clients. Every few seconds a registry is ended with SIGKILL and started again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.client.schemas.client import RegistryError, Schema, SchemaClient
from barnabas.testing import EmbeddedBroker

REGISTRIES, CLIENTS = 4, 8
PAUSE = (2.0, 6.0)  # seconds between two kills
READY = "The schema registry is ready on "


class Registry:
    """One process, always on the same port."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        self.bootstrap = bootstrap
        self.log = log
        self.listen = "127.0.0.1:0"
        self.url = ""
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "barnabas", "registry", "run", "--listen", self.listen]
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, "--bootstrap-server", self.bootstrap],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), self.log.read_text()[-2000:]
        self.url = line.removeprefix(READY).strip()
        self.listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Tally:
    answers: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))  # id -> schemas
    refused: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def register_for_ever(number: int, registries: list[Registry], tally: Tally, stop: threading.Event) -> None:
    count = 0
    while not stop.is_set():
        count += 1
        name = f"C{number}x{count}"
        schema = Schema("AVRO", json.dumps({"type": "enum", "name": name, "symbols": ["A"]}))
        register_once(name, schema, registries, tally, stop)


def register_once(
    name: str, schema: Schema, registries: list[Registry], tally: Tally, stop: threading.Event
) -> None:
    """Through any registry, until one answers; the same schema must have the same id each time."""
    while not stop.is_set():
        try:
            with SchemaClient(random.choice(registries).url, timeout=40) as client:
                number = client.register(name, schema)
        except RegistryError as error:
            with tally.lock:
                tally.refused[error.code] += 1
            stop.wait(0.05)
            continue
        with tally.lock:
            tally.answers[number].add(name)
        return


def run(minutes: float, folder: Path) -> int:
    tally, stop = Tally(), threading.Event()
    with EmbeddedBroker() as broker:
        registries = [Registry(broker.bootstrap_servers, folder / f"{at}.log") for at in range(REGISTRIES)]
        clients = [
            threading.Thread(target=register_for_ever, args=(at, registries, tally, stop))
            for at in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        end = time.monotonic() + minutes * 60
        try:
            while time.monotonic() < end:
                time.sleep(random.uniform(*PAUSE))
                victim = random.choice(registries)
                victim.kill()
                victim.start()
                tally.kills += 1
        finally:
            stop.set()
            for client in clients:
                client.join()
            forgotten = check(registries[0].url, tally)
            for one in registries:
                one.kill()
    return report(minutes, tally, forgotten)


def check(url: str, tally: Tally) -> int:
    """Answers that the registry does not give again."""
    forgotten = 0
    with SchemaClient(url, timeout=60) as client:
        for number, names in tally.answers.items():
            found = json.loads(client.schema(number).text)["name"]
            forgotten += names != {found}
    return forgotten


def report(minutes: float, tally: Tally, forgotten: int) -> int:
    twice = sum(len(names) > 1 for names in tally.answers.values())
    sys.stdout.write(
        f"{minutes:g} minutes, {tally.kills} registries killed, {len(tally.answers)} schemas registered, "
        f"refusals by code {dict(tally.refused)}: {twice} ids given twice, {forgotten} answers forgotten\n"
    )
    return 1 if twice or forgotten else 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="registries-") as folder:
        raise SystemExit(run(minutes, Path(folder)))


if __name__ == "__main__":
    main()
