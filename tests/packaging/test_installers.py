"""The wheel with pipx, uv tool and pip: the printed hint installs the extra. Its bill of materials is valid."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.packaging.installed import build, find_uv, run
from tests.packaging.test_dist import SBOM
from tests.support.programs import PROJECT_ROOT

pytestmark = pytest.mark.extended

TOOLS = PROJECT_ROOT / ".cache/packaging/python"  # `make packages` installs it
HINT = "from barnabas.common.installation import extra_command; print(extra_command('cluster'))"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(str(error) if error else 0)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"), "wheel")[0]


def test_the_bill_of_materials_is_valid_by_the_schema_of_cyclonedx(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        bill = archive.read(SBOM).decode()
    check = (sys.executable, "-c", VALIDATE)
    run(*check, env={"PYTHONPATH": str(TOOLS)}, stdin=bill)
    with pytest.raises(AssertionError, match="components"):
        run(*check, env={"PYTHONPATH": str(TOOLS)}, stdin=bill.replace('"scope": "required"', '"scope": "x"'))


def with_pip(folder: Path, wheel: Path) -> tuple[Path, Mapping[str, str]]:
    run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv/bin"
    run(programs / "pip", "install", "--quiet", wheel)
    return programs / "python", {"PATH": f"{programs}:{os.environ['PATH']}"}


def with_pipx(folder: Path, wheel: Path) -> tuple[Path, Mapping[str, str]]:
    env = {"PYTHONPATH": str(TOOLS), "PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    run(sys.executable, "-m", "pipx", "install", wheel, env=env)
    (folder / "bin/pipx").write_text(f'#!/bin/sh\nexec {sys.executable} -m pipx "$@"\n')
    (folder / "bin/pipx").chmod(0o755)
    return folder / "home/venvs/barnabas/bin/python", {
        **env,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }


def with_uv_tool(folder: Path, wheel: Path) -> tuple[Path, Mapping[str, str]]:
    env = {
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "PATH": f"{Path(find_uv()).parent}:{folder / 'bin'}:{os.environ['PATH']}",
    }
    run(find_uv(), "tool", "install", "--quiet", f"barnabas[ingest] @ {wheel.as_uri()}", env=env)
    return folder / "tools/barnabas/bin/python", env


@pytest.mark.parametrize("install", [with_pip, with_pipx, with_uv_tool])
def test_the_hint_installs_the_extra_and_keeps_the_others(
    install: Callable[[Path, Path], tuple[Path, Mapping[str, str]]], wheel: Path, tmp_path: Path
) -> None:
    python, env = install(tmp_path, wheel)
    assert not can_import(python, "kazoo")
    hint = run(python, "-I", "-c", HINT, env={"PATH": env["PATH"]}).strip()
    run(*shlex.split(hint), env=env)
    assert can_import(python, "kazoo")
    if install is with_uv_tool:
        assert can_import(python, "yaml")


def can_import(python: Path, name: str) -> bool:
    return (
        subprocess.run([python, "-I", "-c", f"import {name}"], capture_output=True, check=False).returncode
        == 0
    )
