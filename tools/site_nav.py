"""Navigation of the documentation site: groups by task, each with titles and pages.

A page is a path in docs/, or the name of a page at the root of the repository. Every page is listed (`make check`); the
decision records and test reports are listed by their folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.doc_marks import ROOT

Group = dict[str, str]

HOME = "index.md"

NAV: dict[str, Group] = {
    "Start": {
        "Documentation": HOME,
        "Barnabas": "README.md",
        "Install": "install.md",
        "Command line": "cli.md",
        "Demo": "pipelines/demo.md",
    },
    "Use from Python": {
        "Python client": "python-client.md",
        "Public API and versions": "public-api.md",
        "A broker in tests": "testing.md",
        "Topics as tables": "tables.md",
        "Filters": "filters.md",
        "Queues": "queues.md",
        "TLS and SASL for clients": "tls-and-sasl.md",
        "Clients and their tests": "clients.md",
    },
    "Operate": {
        "Running brokers": "operations.md",
        "All cores": "all-cores.md",
        "Clusters": "clusters.md",
        "Security": "security.md",
        "Tiered storage": "tiering.md",
        "Console": "console.md",
        "Scale": "scale.md",
    },
    "Move data": {
        "Ingest": "ingest.md",
        "Mirror": "mirror.md",
        "Connectors": "connect.md",
        "PostgreSQL": "connect-postgres.md",
        "OpenSearch": "connect-opensearch.md",
        "Schema registry": "registry.md",
    },
    "Pipelines": {
        "Pipelines": "pipelines/index.md",
        "On a cluster": "pipelines/cluster.md",
        "Managed Spark": "pipelines/managed.md",
        "Read topics with Spark": "pipelines/source.md",
        "Write topics with Spark": "pipelines/sink.md",
        "Template: activity": "pipelines/activity.md",
        "Template: enrich": "pipelines/enrich.md",
        "Template: logs": "pipelines/logs.md",
        "Template: operations": "pipelines/operations.md",
        "Template: recommend": "pipelines/recommend.md",
        "Template: warehouse": "pipelines/warehouse.md",
    },
    "Reference": {
        "Compatibility": "COMPATIBILITY.md",
        "Settings": "configuration.md",
        "Commands": "commands.md",
        "Metrics": "metrics.md",
        "Console API": "console-api.md",
        "Changelog": "CHANGELOG.md",
    },
    "Internals": {
        "Architecture": "ARCHITECTURE.md",
        "Contributing": "CONTRIBUTING.md",
        "Consumer groups": "concepts/consumer-groups.md",
        "Share groups": "concepts/share-groups.md",
        "Streams groups": "concepts/streams-groups.md",
        "Replication": "concepts/replication.md",
        "Chaos": "concepts/chaos.md",
        "Benchmark": "benchmark.md",
    },
}
# Folders whose pages are listed by their own titles.
FOLDERS = {"Decisions": "decisions", "Test reports": "proof"}

ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "COMPATIBILITY.md", "CONTRIBUTING.md", "CHANGELOG.md")


def site_name(page: str) -> str:
    """Name of a page in the site: Zensical takes README.md for the index of its folder."""
    return "overview.md" if page == "README.md" else page


def source_of(page: str) -> Path:
    """File of a page in the repository."""
    return ROOT / page if page in ROOT_PAGES else ROOT / "docs" / page


def navigation() -> dict[str, Group]:
    folders = {group: _pages_of(folder) for group, folder in FOLDERS.items()}
    return {**NAV, **folders}


def _pages_of(folder: str) -> Group:
    paths = sorted((ROOT / "docs" / folder).glob("*.md"))
    return {title_of(path): f"{folder}/{path.name}" for path in paths}


def title_of(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()


def pages_not_listed() -> Iterator[str]:
    """Report pages that the site would not link, and entries without a page."""
    listed = {page for group in navigation().values() for page in group.values()}
    existing = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} | set(
        ROOT_PAGES
    )
    for page in sorted(existing - listed):
        yield f"{page} is not in the navigation of the site: add it to tools/site_nav.py"
    for page in sorted(listed - existing):
        yield f"tools/site_nav.py lists {page}, which does not exist"
