"""The file map of ARCHITECTURE.md: one row per package, from the first paragraph of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.doc_marks import ROOT

BEGIN, END = "## File map\n", "## Layers\n"
SRC = ROOT / "src" / "barnabas"
OTHERS = {
    "simulation/": "A cluster from a seed: the brokers' code on simulated clocks, disks and network",
    "examples/demo/": "`make demo` (a shop, three pipelines, a check of every count) and `make tour`",
    "tests/": "Mirror the tree; `support/` is what they share, a real Kafka too; `chaos/` kills brokers of real "
    "clusters, `fuzz/` sends extreme frames with a stopwatch, `perf/` is the gate on CPU per request",
    "benchmarks/": "Barnabas next to Apache Kafka: `rows/` declares what is measured, `subjects/` starts it, "
    "`clients/` produces the load, `floors/` is the best the machine can do",
    "tools/": "Generated pages of the documentation, the checks of `make check`; `packages/` builds image and .deb",
    "packaging/": "The systemd unit, the Debian package's scripts and settings, the Helm chart",
    "docs/": "Pages for users; `decisions/` for readers who ask why",
}


def architecture_page() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [*_packages(), *OTHERS.items()]
    table = "".join(f"| `{where}` | {what} |\n" for where, what in rows)
    intro = "Generated from the docstrings of the packages (`make docs`). Other packages import from `__init__`.\n"
    return f"{before}{BEGIN}\n{intro}\n| where | what |\n|---|---|\n{table}\n{END}{after}"


def _packages() -> Iterator[tuple[str, str]]:
    for path in sorted(SRC.rglob("__init__.py")):
        folder = path.parent.relative_to(SRC)
        if 0 < len(folder.parts) <= 3 and not {"library", "template"} & {*folder.parts}:
            yield f"{folder}/", _first_paragraph(path)


def _first_paragraph(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n", 1)[0].split()).rstrip(".").replace("|", "\\|")
