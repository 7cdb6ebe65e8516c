"""Import rules that layers cannot express: owners of a library, packages without I/O, restricted calls.

    python -m tools.check_imports

The layers themselves are checked by import-linter (pyproject.toml).
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.imports import imports_of, module_name

SRC = Path(__file__).parent.parent / "src"

# library -> the only modules (or packages) that may import it
ONLY_IMPORTED_BY = {
    "kazoo": ("barnabas.cluster.zookeeper.kazoo_client",),
    "obstore": ("barnabas.tiering.stores.obstore_store",),
    "typer": ("barnabas.cli",),
    "rich": ("barnabas.cli", "barnabas.pipelines.terminal"),
    "pyspark": (
        "barnabas.spark",
        "barnabas.pipelines",
        "barnabas.connect",
        "pyspark_barnabas",
        "pyspark_barnabas_postgres",
    ),
    "psycopg": ("barnabas.connect.sources.postgres",),
    "http.client": ("barnabas.common.http_client",),
    "urllib.request": ("barnabas.common.http_client",),
    "difflib": (
        "barnabas.common.suggestions",
        "barnabas.services.console.pages.schemas.text",  # the difference of two texts
    ),
    "cramjam": ("barnabas.records.compression",),
    "zstandard": ("barnabas.records.compression",),
    "gzip": (
        "barnabas.records.compression",
        "barnabas.services.ingest.files.contents",  # files that logrotate compresses
        "barnabas.services.console.responses",
        "barnabas.services.console.static_files",
    ),
    "jinja2": ("barnabas.services.console.rendering",),
    "zlib": ("barnabas.records.compression", "barnabas.services.ingest.files.contents"),
}

SERVER = ("barnabas.broker", "barnabas.handlers", "barnabas.network")

# package -> imports it must not have: the wire layer and the state machines are tested without a socket
NO_IO = ("asyncio", "socket", "selectors", "ssl")
MUST_NOT_IMPORT = {
    "barnabas.protocol": NO_IO,
    "barnabas.records": NO_IO,
    "barnabas.log": NO_IO,
    "barnabas.groups": NO_IO,
    "barnabas.transactions": NO_IO,
    "barnabas.share": NO_IO,
    "barnabas.controller": NO_IO,
    "barnabas.handlers.telemetry.manager": NO_IO,
    "barnabas.handlers.telemetry.otlp": NO_IO,
    "barnabas.handlers.telemetry.series": NO_IO,
    "barnabas.coordination": NO_IO,
    "barnabas.network.frames": NO_IO,
    "barnabas.network.memory_pool": NO_IO,
    # Clients of any Kafka over the network, independent of our server.
    "barnabas.spark": SERVER,
    "barnabas.pipelines": SERVER,
    "barnabas.connect": SERVER,
    "barnabas.services": (*SERVER, "barnabas.replication"),
    "barnabas.services.console": ("barnabas.log",),
}

# The only coordinator module that uses tasks; the state machines take callbacks and timers.
MAY_IMPORT_ASYNCIO = ("barnabas.coordination.tasks",)

# call -> (packages that must not make it, modules in them that may)
SERVING = (
    "broker", "handlers", "network", "web", "groups", "transactions", "share", "controller", "coordination",
    "replication", "cluster", "log",
)  # fmt: skip
OURS = ("barnabas", "pyspark_barnabas", "pyspark_barnabas_postgres")
SERVED = tuple(f"barnabas.{package}" for package in SERVING)
# Python's `re` can take exponential time: client input is matched with RE2 (barnabas.common.regex). The patterns of
# these modules are constants that take linear time.
MAY_IMPORT_RE = (
    "barnabas.handlers.versions",  # client software names
    "barnabas.share.delays",  # durations
    "barnabas.transactions.bounds",  # the number in a transactional id
    "barnabas.cluster.names",  # topic names
    "barnabas.config.checks", "barnabas.config.document", "barnabas.config.listeners", "barnabas.config.properties",
    "barnabas.config.setting",
    "barnabas.log.compaction.keys",  # runs of similar records; the pattern has no alternatives
)  # fmt: skip

MUST_NOT_CALL = {
    # Client input must not forge log lines: the loggers of barnabas.common.safe_logging escape it.
    "logging.getLogger": (
        SERVED,
        (
            "barnabas.handlers.configuration.alter_configs",
            "barnabas.cluster.zookeeper.kazoo_client",
        ),  # logger levels; kazoo's logger
    ),
    # No setting names code. These modules import from a fixed table or run generated code.
    **dict.fromkeys(
        ("importlib.import_module", "import_module", "importlib.__import__", "__import__"),
        (
            OURS,
            (
                "barnabas.cli.main",  # commands, by the table of their modules
                "barnabas.protocol.api",  # messages, by the family in the table of APIs
                "barnabas.pipelines.definitions.templates",  # the library that comes with Barnabas
                "barnabas.records.columnar.__main__",
                "barnabas.common.lazy",  # the public names of a package, by the imports in its `__init__`
            ),
        ),
    ),
    **dict.fromkeys(
        ("exec", "builtins.exec"), (OURS, ("barnabas.protocol.codec", "barnabas.protocol.schema"))
    ),
    **dict.fromkeys(("eval", "builtins.eval", "runpy.run_path", "runpy.run_module"), (OURS, ())),
    # Pipeline definitions are programs by the user, in the folder given to the command.
    "importlib.util.spec_from_file_location": (OURS, ("barnabas.pipelines.definitions.loading",)),
    # Unpickling executes code. Spark's workers unpickle in their own code.
    # The console's search processes get their credentials from their parent process over a pipe.
    **dict.fromkeys(
        ("pickle.loads", "pickle.load", "marshal.loads"),
        (OURS, ("barnabas.services.console.scanning.login",)),
    ),
}


def main() -> int:
    complaints = [complaint for path in sorted(SRC.rglob("*.py")) for complaint in complaints_about(path)]
    for complaint in complaints:
        print(complaint)
    print(f"import rules: {len(complaints)} broken" if complaints else "import rules kept")
    return 1 if complaints else 0


def complaints_about(path: Path) -> Iterator[str]:
    module = module_name(path, SRC)
    yield from _about_imports(path, module)
    yield from _about_calls(path, module)
    if not is_within(module, "barnabas.log"):
        for line, target in assignments_to_logs(path):
            yield f"{path}:{line}: only a log assigns to its attributes, not {module} to {target}"


def _about_imports(path: Path, module: str) -> Iterator[str]:
    for line, imported in imported_by(path):
        for library, owners in ONLY_IMPORTED_BY.items():
            if is_within(imported, library) and not any(is_within(module, owner) for owner in owners):
                yield f"{path}:{line}: only {' or '.join(owners)} may import {library}"
        for package, forbidden in MUST_NOT_IMPORT.items():
            if imported == "asyncio" and module in MAY_IMPORT_ASYNCIO:
                continue
            if is_within(module, package) and any(is_within(imported, name) for name in forbidden):
                yield f"{path}:{line}: {package} must not import {imported}"
        if imported == "re" and is_served(module) and module not in MAY_IMPORT_RE:
            yield f"{path}:{line}: {module} must not import re: use barnabas.common.regex for what clients send"


def _about_calls(path: Path, module: str) -> Iterator[str]:
    for line, called in calls_of(path):
        packages, except_in = MUST_NOT_CALL.get(called, ((), ()))
        if any(is_within(module, package) for package in packages) and module not in except_in:
            yield f"{path}:{line}: {module} must not call {called}"


def imported_by(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, once for each line; `from urllib import request` imports both."""
    yield from dict.fromkeys(
        (each.line, module)
        for each in imports_of(path)
        for module in (each.module, each.target(ONLY_IMPORTED_BY))
    )


def calls_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of every call by name, as `module.function` or `function`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            yield node.lineno, ast.unparse(node.func)


def assignments_to_logs(path: Path) -> Iterator[tuple[int, str]]:
    """(line, target) of assignments to attributes of a log, which only its own methods may change."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value).rpartition(".")[2]
            if owner in ("log", "_log", "future", "offsets", "segments"):
                yield node.lineno, ast.unparse(node)


def is_served(module: str) -> bool:
    return any(is_within(module, package) for package in (*SERVED, "barnabas.config"))


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


if __name__ == "__main__":
    sys.exit(main())
