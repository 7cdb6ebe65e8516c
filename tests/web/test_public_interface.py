"""Names of `barnabas.web` are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import barnabas.web


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    return {name.removeprefix("barnabas.web.") for name in modules if name.startswith("barnabas.web.")} | (
        modules & {"uvicorn", "h11"}
    )


def test_the_package_imports_none_of_its_modules() -> None:
    assert loaded_by("import barnabas.web") == set()


def test_a_broker_imports_the_metrics_server_only() -> None:
    names = "MetricsServer, credentials_from, metrics_server_limits"
    assert loaded_by(f"from barnabas.web import {names}") == {"metrics_server", "credentials", "origins"}


def test_a_server_imports_uvicorn_only_when_it_is_created() -> None:
    assert loaded_by("from barnabas.web import Server, WebServer") == {"server", "asgi"}


def test_an_unknown_name_is_an_error_of_its_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'barnabas.web' has no attribute 'Nothing'"):
        barnabas.web.Nothing  # type: ignore[attr-defined]  # noqa: B018
