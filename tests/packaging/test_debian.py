"""The Debian package: accepted by lintian, installed into a new system, started by systemd."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packaging.installed import build, run
from tests.support.programs import find
from tools.packages import container, debian
from tools.packages.environment import PYTHON

pytestmark = pytest.mark.timeout(1800)  # a build takes minutes on a busy machine

BOOT_SECONDS = 120.0


def test_the_package_has_unit_settings_manual_pages_and_completion() -> None:
    files = debian.files()
    assert b"Type=notify" in files["usr/lib/systemd/system/barnabas.service"]
    assert b"log.dirs=/var/lib/barnabas" in files["etc/barnabas/server.properties"]
    assert b"server.properties" in gzip.decompress(files["usr/share/man/man1/barnabas-serve.1.gz"])
    assert "usr/share/bash-completion/completions/barnabas" in files


def test_maintainer_scripts_are_valid() -> None:
    for name in debian.SCRIPTS:
        subprocess.run(["sh", "-n", debian.SOURCES / name], check=True)


# -- Built and installed: `make packages` --------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    find("dpkg-deb", "lintian", "mmdebstrap", "systemd-nspawn")
    if settings := os.environ.get("BARNABAS_DEB"):
        return Path(settings)
    folder = tmp_path_factory.mktemp("deb")
    (wheel,) = build(folder, "wheel")
    return debian.build(folder, wheel)


@pytest.mark.extended
def test_lintian_has_no_complaint(package: Path) -> None:
    ended = subprocess.run(
        ["lintian", "--tag-display-limit", "0", "--fail-on", "error,warning", package],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


@pytest.fixture(scope="module")
def system(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new Debian 13 with systemd and the package, that was not started yet."""
    if os.geteuid() != 0:
        pytest.skip("needs root: sudo make packages")
    root = tmp_path_factory.mktemp("debian") / "root"
    packages = f"python{PYTHON},adduser,systemd-sysv,iproute2"
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        f"--keyring={container.KEYRING}",
        f"--include={packages}",
    ]
    command += [
        "--aptopt=APT::Install-Recommends false",
        container.SUITE,
        str(root),
    ]
    run(*command)
    (root / "package.deb").write_bytes(package.read_bytes())
    run("chroot", root, "dpkg", "--install", "/package.deb")
    yield root
    run("chroot", root, "dpkg", "--purge", "barnabas")
    assert not (root / "opt/barnabas").exists()
    assert not (root / "etc/barnabas/server.properties").exists()
    assert (root / "var/lib/barnabas").exists()


@pytest.mark.extended
def test_systemd_starts_and_stops_the_service(system: Path) -> None:
    conf = system / "etc/barnabas/server.properties"
    assert conf.stat().st_mode & 0o777 == 0o640
    with booted(system) as leader:

        def inside(*command: str, stdin: str = "") -> str:
            return run("nsenter", "--all", "--target", leader, *command, stdin=stdin)

        _wait_until_active(leader)
        inside("barnabas", "produce", "orders", stdin="hello\n")
        assert inside("barnabas", "consume", "orders", "--from", "beginning", "--exit-at-end") == "hello\n"
        shown = inside("systemctl", "show", "barnabas", "--property=StatusText,User,NRestarts")
        assert set(shown.splitlines()) == {"StatusText=Serving clients", "User=barnabas", "NRestarts=0"}
        assert "python -m pip install" in inside(
            "/opt/barnabas/bin/python",
            "-c",
            "from barnabas.common.installation import extra_command; print(extra_command('console'))",
        )
        inside("systemctl", "stop", "barnabas")
        assert "ExecMainStatus=0" in inside("systemctl", "show", "barnabas", "--property=ExecMainStatus")
    assert (system / "var/lib/barnabas/.kafka_cleanshutdown").exists()


@contextmanager
def booted(root: Path) -> Iterator[str]:
    """The process id of the first process of a system."""
    command = ["systemd-nspawn", "--quiet", "--directory", str(root), "--private-network", "--register=no"]
    command += [
        "--keep-unit",
        "--boot",
        "--console=read-only",
        "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
    ]  # for old hosts
    log = root.parent / "boot.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + BOOT_SECONDS
        while not (found := [pid for pid in children.read_text().split() if _name_of(pid) == "systemd"]):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait(BOOT_SECONDS)


def _name_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


def _wait_until_active(leader: str) -> None:
    deadline = time.monotonic() + BOOT_SECONDS
    command = ["nsenter", "--all", "--target", leader, "systemctl", "is-active", "barnabas"]
    while True:
        state = subprocess.run(command, capture_output=True, text=True, check=False)
        if state.stdout.strip() == "active":
            return
        if time.monotonic() > deadline:
            journal = subprocess.run(
                [*command[:4], "journalctl", "--no-pager"], capture_output=True, text=True, check=False
            )
            pytest.fail(f"{state.stdout}{state.stderr}\n{journal.stdout[-5000:]}", pytrace=False)
        time.sleep(0.2)
