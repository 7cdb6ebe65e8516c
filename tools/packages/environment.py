"""A virtual environment for /opt/barnabas of another machine: part of the Debian package and the container image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements/packages.txt"
PREFIX = "opt/barnabas"
# Debian 13. Wheels are chosen for this version, whichever one runs this program.
PYTHON = "3.13"
PLATFORM = "x86_64-manylinux_2_28"
# Pure Python, without a wheel on the index.
FROM_SOURCE = "pure-sasl"

LAUNCHER = f"""#!/{PREFIX}/bin/python
import sys
from barnabas.cli.main import main

sys.exit(main())
"""


def make_environment(root: Path, wheel: Path, installer: str) -> Path:
    """Install wheel and pinned requirements below `root`; return the prefix. `installer` decides on later hints."""
    prefix = root / PREFIX
    site = prefix / f"lib/python{PYTHON}/site-packages"
    target = (
        "--quiet",
        "--link-mode",
        "copy",
        "--target",
        site,
        "--python-version",
        PYTHON,
        "--python-platform",
        PLATFORM,
    )
    wheels = ("--only-binary", ":all:", "--no-binary", FROM_SOURCE)
    _uv("pip", "install", *target, *wheels, "--require-hashes", "--requirement", REQUIREMENTS)
    _uv("pip", "install", *target, "--no-deps", wheel)
    _make_programs(prefix, site)
    config = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n"
    (prefix / "pyvenv.cfg").write_text(config)
    (prefix / "barnabas-installer").write_text(f"{installer}\n")  # common/installation.py
    return prefix


def _make_programs(prefix: Path, site: Path) -> None:
    programs = prefix / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(f"/usr/bin/python{PYTHON}")
    (programs / "python3").symlink_to("python")
    (programs / "barnabas").write_text(LAUNCHER)
    (programs / "barnabas").chmod(0o755)
    shutil.move(site / "bin/protoc", programs / "protoc")  # of the registry; the others are scripts
    shutil.rmtree(site / "bin")
    (site / ".lock").unlink(missing_ok=True)  # uv's


def newest_wheel(folder: Path) -> Path:
    wheels = sorted(folder.glob("barnabas-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise SystemExit(f"no wheel in {folder}: make dist")
    return wheels[-1]


def source_date() -> int:
    """Time of all files: that of the commit."""
    if values := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(values)
    command = ("git", "log", "-1", "--format=%ct")
    return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def _uv(*arguments: object) -> None:
    beside = Path(sys.executable).parent / "uv"
    program = shutil.which("uv") or str(beside)
    subprocess.run([program, *map(str, arguments)], check=True)
