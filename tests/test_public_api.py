"""Public import paths stay valid."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas
from tests.packaging.installed import build, new_environment
from tests.support.programs import PROJECT_ROOT

# Module -> names. A release may add to this table, never remove from it.
PUBLIC = {
    "barnabas": (
        "__version__",
        "table",
        # The Python client: docs/python-client.md.
        "Producer",
        "AsyncProducer",
        "Consumer",
        "AsyncConsumer",
        "ShareConsumer",
        "AsyncShareConsumer",
        "Admin",
        "AsyncAdmin",
        "Acl",
        "CommittedOffset",
        "ConsumerRecord",
        "GroupMetadata",
        "ProducerRecord",
        "RecordMetadata",
        "ShareRecord",
        "TopicPartition",
        "ErrorCode",
        "KafkaError",
        "ClientError",
        "AcknowledgeError",
        "BufferFullError",
        "CommitFailedError",
        "DeliveryError",
        "NoOffsetError",
        "ProducerFencedError",
        "SerializationError",
        "TransactionError",
    ),
    "barnabas.testing": ("EmbeddedBroker", "EmbeddedCluster"),
    "barnabas.testing.objects": ("MemoryObjectStore",),
    "barnabas.testing.plugin": ("barnabas", "barnabas_topic", "barnabas_registry", "barnabas_settings"),
    "barnabas.errors": ("ErrorCode", "KafkaError"),
    "barnabas.durations": ("seconds_of",),
    "barnabas.protocol.api": ("ApiKey",),
    "barnabas.client.cluster": ("Client",),
    "barnabas.client.producer": ("Producer",),
    "barnabas.client.security.parsing": ("parse_security",),
    "barnabas.client.schemas": ("SchemaClient", "AsyncSchemaClient"),
    "barnabas.client.sharing": ("ShareConsumer",),
    "barnabas.pipelines.connection": ("broker_options",),
    "barnabas.pipelines.origin": ("ORIGIN",),
    "barnabas.pipelines.times": ("event_time",),
    "barnabas.pipelines.training": ("is_planning",),
    "barnabas.pipelines.quality.letters": ("letter_headers",),
    "barnabas.pipelines.log_lines": ("Entry", "Joiner", "Letter", "line_rules"),
    "barnabas.pipelines.session": ("session_builder",),
    "barnabas.pipelines.source.ddl": ("parse_ddl",),
    "pyspark_barnabas": ("DefaultSource",),
    "pyspark_barnabas_postgres": (),
    "barnabas.cli.main": ("main",),
}
HEAVY = {"pyarrow", "numba", "pyspark", "typer", "asyncio", "msgspec"}


def documented() -> dict[str, set[str]]:
    """Names by module, in the tables of docs/public-api.md; a row without a module continues the one above."""
    found: dict[str, set[str]] = {}
    text = (PROJECT_ROOT / "docs/public-api.md").read_text().partition("## Beyond Python")[0]
    module = ""
    for line in text.splitlines():
        if line.startswith(("| `", "| |")):
            first, names = line.split("|")[1:3]
            module = first.strip().strip("`") or module
            found.setdefault(module, set()).update(re.findall(r"`(\w+)`", names))
    return found


def test_the_page_of_the_public_api_lists_it() -> None:
    assert documented() == {module: set(names) for module, names in PUBLIC.items()}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_module_has_its_names(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []


def test_every_exported_name_exists() -> None:
    missing = []
    for package in pkgutil.walk_packages(barnabas.__path__, "barnabas."):
        if package.ispkg and ".template" not in package.name:
            found = importlib.import_module(package.name)
            missing += [
                f"{package.name}.{name}" for name in getattr(found, "__all__", ()) if not hasattr(found, name)
            ]
    assert missing == []


def test_barnabas_exports_only_its_public_names() -> None:
    assert set(barnabas.__all__) == set(PUBLIC["barnabas"])
    with pytest.raises(AttributeError, match="has no attribute 'Produser'"):
        barnabas.Produser  # type: ignore[attr-defined]  # noqa: B018  # wrong on purpose


# A user's program and a folder outside this repository: mypy has to find the types in the installed package.
USERS_PROGRAM = """
import asyncio
import barnabas
from barnabas import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, ShareConsumer, TopicPartition

with Producer("localhost:9092", linger_ms=5, acks="all", transactional_id="a") as producer:
    with producer.transaction():
        offset: int = producer.send("t", b"v", "k", headers={"a": b"1"}).result().offset
        producer.send_offsets({TopicPartition("t", 0): 1}, "group")
with Consumer("localhost:9092", topics=["t"], group_id="g", auto_offset_reset="earliest") as consumer:
    for record in consumer:
        position: int = consumer.position(record.tp)
with ShareConsumer(topics="t", group_id="g") as jobs:
    for job in jobs:
        jobs.acknowledge(job, "release")
with Admin() as admin:
    names: list[str] = admin.list_topics()

async def main() -> None:
    async with AsyncProducer() as producer, AsyncConsumer(group_id="g") as consumer:
        metadata: barnabas.RecordMetadata = await (await producer.send("t", b"v"))
        async for record in consumer:
            await consumer.commit({record.tp: record.offset + 1})

asyncio.run(main())
rows = barnabas.table("t", bootstrap="localhost:9092", format="json").to_arrow()
"""
MISTAKES = """
import barnabas
from barnabas import Consumer, Producer, ShareConsumer
Producer(linger="5")
Consumer(auto_offset_reset="first")
ShareConsumer(topics="t", group_id="g").acknowledge("record", "maybe")
offset: str = Producer().send("t").result().offset
barnabas.table("t", bootstrapp="localhost:9092")
"""


@pytest.mark.extended  # half a minute; `make check` covers examples/python_client.py
def test_mypy_checks_a_users_program_with_an_installed_wheel(tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv", build(tmp_path / "dist", "wheel")[0]) / "python"
    (tmp_path / "program.py").write_text(USERS_PROGRAM)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        "",
        "--python-executable",
        str(python),
    ]
    done = subprocess.run(
        [*command, "program.py", "mistakes.py"], cwd=tmp_path, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in lines if not line.startswith("mistakes.py")] == [], done.stdout
    assert len({line.split(":")[1] for line in lines}) == 5, done.stdout


def test_importing_barnabas_imports_nothing_heavy() -> None:
    program = "import sys, barnabas; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
