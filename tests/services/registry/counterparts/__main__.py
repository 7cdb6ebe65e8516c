"""Third-party clients against our registry: `python -m tests.services.registry.counterparts` (needs npm and go)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from barnabas.testing import EmbeddedBroker

HERE = Path(__file__).parent
KAFKAJS = "@kafkajs/confluent-schema-registry@3"
FRANZ = "github.com/twmb/franz-go/pkg/sr@v1.8.0"


def kafkajs(folder: Path, url: str) -> None:
    shutil.copy(HERE / "kafkajs.js", folder)
    call(folder, "npm", "install", "--silent", "--prefix", str(folder), KAFKAJS)
    call(folder, "node", "kafkajs.js", url)


def franz(folder: Path, url: str) -> None:
    shutil.copy(HERE / "franz.go", folder)
    call(folder, "go", "mod", "init", "counterpart")
    call(folder, "go", "get", FRANZ)
    call(folder, "go", "run", "franz.go", url)


def call(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=600)


def main() -> None:
    with EmbeddedBroker(registry=True) as broker:
        for client in (kafkajs, franz):
            with tempfile.TemporaryDirectory() as folder:
                client(Path(folder), broker.registry_url)
            sys.stdout.write(f"{client.__name__}: passed\n")


if __name__ == "__main__":
    main()
