"""Debian's Prometheus, for tests: `make programs` unpacks it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.programs import missing

FOLDER = Path(__file__).parents[1] / ".cache/programs/prometheus/usr/bin"


def find_promtool() -> str:
    return _find("promtool")


def find_prometheus() -> str:
    return _find("prometheus")


def _find(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(FOLDER))
    if found is None:
        missing(f"no {name} here")
    return found
