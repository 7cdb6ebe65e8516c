"""`_schemas` shared with Karapace: taken over, returned, and used by both.

    python -m tests.services.registry.counterparts.karapace CHECKOUT PYTHON

CHECKOUT is a checkout of Karapace, PYTHON a Python with its dependencies (docs/proof/registry.md says how it was made).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from barnabas.client.security.settings import PLAINTEXT
from barnabas.testing import EmbeddedBroker
from barnabas.testing.embedded_registry import EmbeddedRegistry
from tests.support.programs import free_port
from tests.support.registry import Rest
from tests.support.waiting import eventually, until

DEADLINE = 240.0  # a busy machine takes its time to import Karapace
AVRO = '{"type":"record","name":"R%d","fields":[{"name":"a","type":"int"}]}'
JSON = '{"type":"object","title":"J%d","properties":{"a":{"type":"integer"}}}'


@contextmanager
def karapace(checkout: Path, python: str, bootstrap: str) -> Iterator[str]:
    port = free_port()
    settings = {
        "BOOTSTRAP_URI": bootstrap,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "ADVERTISED_HOSTNAME": "127.0.0.1",
        "ADVERTISED_PORT": str(port),
        "KARAPACE_REGISTRY": "true",
    }
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment |= {f"KARAPACE_{name}": value for name, value in settings.items()}
    process = subprocess.Popen(
        [python, "-m", "karapace"],
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for_leader(url)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def barnabas(bootstrap: str, peers: frozenset[str] = frozenset()) -> Iterator[str]:
    registry = EmbeddedRegistry(bootstrap, PLAINTEXT, peers=peers)
    try:
        wait_for_leader(registry.url)
        yield registry.url
    finally:
        registry.stop()


def wait_for_leader(url: str) -> None:
    def is_available() -> object:
        with Rest(url) as rest:
            return rest.get("/master_available").body.get("master_available")

    until(is_available, f"no leader at {url}", DEADLINE, every=0.2, ignoring=OSError)


def write(url: str, numbers: range) -> dict[str, int]:
    """Subjects with an Avro and a JSON schema each, a level, a version that is deleted, and their ids."""
    made = {}
    with Rest(url) as rest:
        for number in numbers:
            for kind, text in (("AVRO", AVRO), ("JSON", JSON)):
                subject = f"s{number}-{kind}"
                answer = rest.register(subject, text % number, kind)
                assert answer.status == 200, answer
                made[subject] = answer.body["id"]
            rest.put(f"/config/s{number}-AVRO", {"compatibility": "FULL"})
        removed = f"s{numbers[0]}-JSON"
        assert rest.delete(f"/subjects/{removed}").status == 200
    return made


def check(url: str, written: dict[str, int], deleted: set[str]) -> None:
    eventually(lambda: differences(url, written, deleted)[:3], lambda wrong: not wrong, DEADLINE, every=0.2)


def differences(url: str, written: dict[str, int], deleted: set[str]) -> list[str]:
    wrong = []
    with Rest(url) as rest:
        for subject, number in written.items():
            found = rest.get(f"/subjects/{subject}/versions/1")
            if subject in deleted:
                if found.status != 404:
                    wrong.append(f"{subject} is not deleted")
            elif found.status != 200 or found.body["id"] != number:
                wrong.append(f"{subject}: {found}")
            elif json.loads(found.body["schema"]) != json.loads(expected(subject)):
                wrong.append(f"{subject}: another schema")
            if (
                subject.endswith("AVRO")
                and rest.get(f"/config/{subject}").body.get("compatibilityLevel") != "FULL"
            ):
                wrong.append(f"{subject}: another level")
    return wrong


def expected(subject: str) -> str:
    number = int(subject[1:].partition("-")[0])
    return (AVRO if subject.endswith("AVRO") else JSON) % number


def main() -> None:
    checkout, python = Path(sys.argv[1]), sys.argv[2]
    with EmbeddedBroker() as broker, ExitStack() as stack:
        written: dict[Any, Any] = {}
        deleted: set[Any] = set()
        steps = [("Karapace", range(3)), ("Barnabas", range(3, 6)), ("Karapace", range(6, 9))]
        for name, numbers in steps:
            opened = barnabas(broker.bootstrap_servers) if name == "Barnabas" else None
            with opened or karapace(checkout, python, broker.bootstrap_servers) as url:
                check(url, written, deleted)
                written |= write(url, numbers)
                deleted.add(f"s{numbers[0]}-JSON")
                check(url, written, deleted)
            sys.stdout.write(f"{name}: all of {len(written)} subjects are as they were written\n")
        with karapace(checkout, python, broker.bootstrap_servers) as karapace_registry:
            with barnabas(broker.bootstrap_servers) as ours, Rest(ours) as rest:
                refused = rest.register("not-listed", AVRO % 99)
                assert refused.status == 503, refused
                assert "--peers" in refused.body["message"], refused
            sys.stdout.write(
                "while Karapace leads and is not listed in --peers, nothing is forwarded to it\n"
            )
            opened = barnabas(broker.bootstrap_servers, frozenset({karapace_registry}))
            ours = stack.enter_context(opened)
            written |= write(ours, range(9, 12))
            deleted.add("s9-JSON")
            check(karapace_registry, written, deleted)
            check(ours, written, deleted)
            sys.stdout.write("both at once: written through ours while Karapace leads, found in both\n")
            stack.close()
        with (
            barnabas(broker.bootstrap_servers) as ours,
            karapace(checkout, python, broker.bootstrap_servers) as karapace_registry,
        ):
            written |= write(karapace_registry, range(12, 15))
            deleted.add("s12-JSON")
            check(ours, written, deleted)
            check(karapace_registry, written, deleted)
            sys.stdout.write("both at once: written through Karapace while ours leads, found in both\n")
        assert len(set(written.values())) == len(written), "an id was given twice"
        sys.stdout.write(f"{len(written)} schemas, no id twice\n")


if __name__ == "__main__":
    main()
