"""No option of the source or the sink names code that is run."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from barnabas.spark.client_settings import CLIENT_PREFIX, KNOWN, REFUSED
from barnabas.spark.options import OPTIONS
from barnabas.spark.source.settings import SourceSettings

MODULE = "hostile_module_of_an_option"
BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
CLASSES = ("partition.assignment.strategy", "interceptor.classes", "key.deserializer", "metric.reporters")


@pytest.mark.parametrize("value", [MODULE, f"{MODULE}.Plugin", "os.system"])
def test_no_option_imports_a_class(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{MODULE}.py").write_text("class Plugin: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = {option.name for option in OPTIONS} | {
        CLIENT_PREFIX + name for name in (*KNOWN, *REFUSED, *CLASSES)
    }
    for name in names:
        with contextlib.suppress(ValueError):
            SourceSettings.parse({**BASE, name: value}, streaming=True)
    assert MODULE not in sys.modules
