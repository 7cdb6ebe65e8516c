"""The import checker detects violations."""

from pathlib import Path

import pytest

from tests.support.programs import PROJECT_ROOT
from tools import check_imports


@pytest.fixture
def src(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_imports, "SRC", tmp_path)
    return tmp_path


def complaints(src: Path, module: str, source: str) -> list[str]:
    path = src.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return list(check_imports.complaints_about(path))


def test_a_socket_in_the_protocol_is_a_complaint_even_inside_a_function(src: Path) -> None:
    found = complaints(src, "barnabas.protocol.framing", "def f():\n    import socket\n")
    assert len(found) == 1
    assert "barnabas.protocol must not import socket" in found[0]


def test_compression_libraries_belong_to_one_module(src: Path) -> None:
    assert complaints(src, "barnabas.log.log", "from cramjam import lz4\n")
    assert not complaints(src, "barnabas.records.compression", "import cramjam\n")


def test_the_server_may_use_sockets(src: Path) -> None:
    assert not complaints(src, "barnabas.network.listener", "import asyncio\nimport socket\n")


def test_name_with_a_common_prefix_is_not_a_finding(src: Path) -> None:
    assert not complaints(src, "barnabas.log.log", "import socketserver_like\n")


def test_loggers_of_the_broker_come_from_one_module(src: Path) -> None:
    source = "import logging\nlogger = logging.getLogger(__name__)\n"
    (found,) = complaints(src, "barnabas.groups.classic.rebalance", source)
    assert "must not call logging.getLogger" in found
    assert not complaints(src, "barnabas.cli.serve", source)


def test_patterns_of_clients_are_not_for_pythons_re(src: Path) -> None:
    for source in ("import re\n", "from re import compile\n"):
        (found,) = complaints(src, "barnabas.transactions.listing", source)
        assert "use barnabas.common.regex" in found
    assert not complaints(src, "barnabas.cluster.names", "import re\n")
    assert not complaints(src, "barnabas.cli.records.lines", "import re\n")


@pytest.mark.parametrize(
    "call",
    ["importlib.import_module(name)", "__import__(name)", "eval(name)", "exec(name)", "pickle.loads(name)"],
)
def test_code_that_a_value_names_is_not_run(src: Path, call: str) -> None:
    (found,) = complaints(src, "barnabas.config.setting", f"def read(name):\n    return {call}\n")
    assert "must not call" in found


@pytest.mark.parametrize(
    "assignment",
    ["partition.log.config = 1", "log.folder = ''", "log.offsets.end += 1", "self._log.disk, x = 1, 2"],
)
def test_only_a_log_assigns_to_its_attributes(src: Path, assignment: str) -> None:
    (found,) = complaints(src, "barnabas.replication.follower", f"{assignment}\n")
    assert "only a log assigns" in found
    assert not complaints(src, "barnabas.log.truncation", f"{assignment}\n")
    assert not complaints(src, "barnabas.replication.follower", "self.log = log\nend = log.offsets.end\n")


# One violation of each rule in each package that it is about, in modules that exist: a rule that is keyed by the name a
# package had before it moved catches nothing, and nothing else would show it.
LOGGER = "import logging\nlogger = logging.getLogger(__name__)\n"
PLANTED = [
    *((module, "import asyncio\n") for module in (
        "barnabas.protocol.api", "barnabas.records.compression", "barnabas.log.log", "barnabas.groups.coordinator",
        "barnabas.transactions.coordinator", "barnabas.share.coordinator", "barnabas.controller.controller",
        "barnabas.handlers.telemetry.manager", "barnabas.coordination.runtime", "barnabas.network.frames",
        "barnabas.network.memory_pool",
    )),
    *((module, "from barnabas.handlers.table import HANDLERS\n") for module in (
        "barnabas.pipelines.definitions.files", "barnabas.spark.source.rows", "barnabas.spark.session",
        "barnabas.connect.declaration", "barnabas.services.mirror.runner", "barnabas.services.ingest.agent",
        "barnabas.services.console.server",
    )),
    *((module, "from barnabas.network.exposure import warn_if_exposed\n") for module in (
        "barnabas.services.console.server", "barnabas.services.registry.server", "barnabas.services.mirror.runner",
        "barnabas.services.ingest.agent",
    )),
    ("barnabas.services.console.server", "import barnabas.log.log\n"),
    *((module, LOGGER) for module in (
        "barnabas.broker.broker", "barnabas.handlers.table", "barnabas.network.socket_server",
        "barnabas.groups.coordinator", "barnabas.transactions.coordinator", "barnabas.share.coordinator",
        "barnabas.controller.controller", "barnabas.coordination.runtime", "barnabas.replication.manager",
        "barnabas.broker.log_cleaner", "barnabas.log.compaction.worker.serving", "barnabas.cluster.image",
        "barnabas.log.log",
        "barnabas.handlers.telemetry.manager", "barnabas.web.server", "barnabas.web.metrics_server",
    )),
    *((module, "import re\n") for module in (
        "barnabas.share.coordinator", "barnabas.log.compaction.worker.serving", "barnabas.handlers.telemetry.manager",
        "barnabas.web.metrics_server", "barnabas.config.broker",
    )),
    *((module, f"import {library}\n") for module, library in (
        ("barnabas.cluster.zookeeper.session", "kazoo"), ("barnabas.tiering.stores.probe", "obstore"),
        ("barnabas.services.console.server", "typer"), ("barnabas.services.console.server", "rich"),
        ("barnabas.services.console.server", "pyspark"), ("barnabas.spark.session", "psycopg"),
        ("barnabas.log.log", "zstandard"), ("barnabas.services.registry.server", "gzip"),
        ("barnabas.services.registry.server", "jinja2"),
        ("barnabas.services.registry.server", "zlib"), ("barnabas.config.document", "difflib"),
        ("barnabas.security.jwt.jwks", "urllib.request"), ("barnabas.client.schemas.client", "http.client"),
    )),
    ("barnabas.security.jwt.jwks", "from urllib import parse, request\n"),
    *((module, "pickle.loads(b'')\n") for module in ("barnabas.services.console.scanning.model", "pyspark_barnabas")),
]  # fmt: skip


@pytest.mark.parametrize(("module", "source"), PLANTED)
def test_a_planted_violation_is_found(src: Path, module: str, source: str) -> None:
    assert (PROJECT_ROOT / "src").joinpath(*module.split(".")).with_suffix(
        ".py"
    ).exists() or "." not in module
    assert complaints(src, module, source)


def test_every_package_and_module_that_a_rule_names_exists() -> None:
    named = {
        *(owner for owners in check_imports.ONLY_IMPORTED_BY.values() for owner in owners),
        *check_imports.MUST_NOT_IMPORT,
        *(name for names in check_imports.MUST_NOT_IMPORT.values() for name in names if "barnabas" in name),
        *check_imports.MAY_IMPORT_ASYNCIO,
        *check_imports.MAY_IMPORT_RE,
        *check_imports.SERVED,
        *(
            name
            for packages, except_in in check_imports.MUST_NOT_CALL.values()
            for name in (*packages, *except_in)
        ),
    }
    paths = {name: (PROJECT_ROOT / "src").joinpath(*name.split(".")) for name in named}
    assert [
        name
        for name, path in sorted(paths.items())
        if not (path.is_dir() or path.with_suffix(".py").exists())
    ] == []


def test_the_rules_are_kept_by_the_source_as_it_is() -> None:
    assert check_imports.main() == 0
