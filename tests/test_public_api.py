"""Import paths that users have in their programs, tests and pipeline folders keep working."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import barnabas

# Module -> names. A release may add to this table, never remove from it.
PUBLIC = {
    "barnabas": ("__version__", "table"),
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


def test_importing_barnabas_imports_nothing_heavy() -> None:
    program = "import sys, barnabas; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
