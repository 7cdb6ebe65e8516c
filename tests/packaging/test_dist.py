"""`make dist`: a reproducible wheel and sdist, whose wheel works in a new environment without optional packages."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from barnabas import __version__
from tests.packaging.installed import build, new_environment, run, serving
from tests.support.programs import PROJECT_ROOT
from tools.sbom import FILE_NAME, bill_of_materials

SBOM = f"barnabas-{__version__}.dist-info/sboms/{FILE_NAME}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    wheel, sdist = build(tmp_path_factory.mktemp("dist"))
    return wheel, sdist


def test_a_wheel_of_the_sdist_is_the_wheel_of_the_checkout(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    (again,) = build(tmp_path / "dist", "wheel", source=unpacked)
    assert again.read_bytes() == wheel.read_bytes()


def test_the_wheel_contains_code_data_files_and_a_bill_of_materials(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        bill = json.loads(wheel.read(SBOM))
    in_source = {
        str(path.relative_to(PROJECT_ROOT / "src"))
        for path in (PROJECT_ROOT / "src/barnabas").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert in_source <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert scopes["msgspec"] == "required"
    assert scopes["kazoo"] == "optional"
    assert "pytest" not in scopes


def test_a_new_environment_serves_produces_and_consumes(built: tuple[Path, Path], tmp_path: Path) -> None:
    programs = new_environment(tmp_path / "venv", built[0])
    barnabas = programs / "barnabas"
    assert __version__ in run(barnabas, "--version")
    with serving([barnabas, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]) as (address, _):
        where = {"BARNABAS_BOOTSTRAP": address}
        run(barnabas, "produce", "orders", stdin="hello\n", env=where)
        assert (
            run(barnabas, "consume", "orders", "--from", "beginning", "--exit-at-end", env=where) == "hello\n"
        )
    hint = run(
        programs / "python",
        "-c",
        "from barnabas.common.installation import extra_command; print(extra_command('cluster'))",
    )
    assert hint == f"uv pip install --python {programs / 'python'} 'barnabas[cluster]'\n"


def test_a_package_of_several_extras_is_one_component() -> None:
    document: Any = bill_of_materials(
        "shop", "1", ["a>=1"], {"x": ["B_c[y]>=2,<3"], "z": ["b-c", "shop[x]"], "dev": ["pytest"]}
    )
    assert [(each["purl"], each["scope"]) for each in document["components"]] == [
        ("pkg:pypi/a", "required"),
        ("pkg:pypi/b-c", "optional"),
    ]
    assert [each["value"] for each in document["components"][1]["properties"]] == [">=2,<3", "any"]
    assert document["serialNumber"].startswith("urn:uuid:")
