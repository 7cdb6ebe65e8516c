"""The Debian package: a private environment in /opt/barnabas, the systemd unit, manual pages and completion.

    python -m tools.packages.debian [--output dist]

It depends on Debian 13's Python; the wheels are compiled for that version.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from barnabas.common.version import __version__
from tools.packages.environment import PREFIX, PYTHON, ROOT, make_environment, newest_wheel, source_date
from tools.packages.manual_pages import completion_scripts, manual_pages

SOURCES = ROOT / "packaging/deb"
UNIT = ROOT / "packaging/systemd/barnabas.service"
VERSION = f"{__version__}-1"
MAINTAINER = "The Barnabas authors <barnabas@users.noreply.github.com>"
CONTROL = f"""Package: barnabas
Version: {VERSION}
Architecture: amd64
Maintainer: {MAINTAINER}
Installed-Size: {{size}}
Depends: adduser, libc6 (>= 2.28), libstdc++6, python{PYTHON}
Section: net
Priority: optional
Description: broker with the wire protocol and on-disk log of Apache Kafka
 Barnabas serves the clients of Apache Kafka from a process of Python: one
 node, or a cluster with ZooKeeper. The package contains the broker, its
 command line, the schema registry and tiered storage.
"""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2026 The Barnabas authors
License: Apache-2.0
 On Debian systems, the text of the license is in /usr/share/common-licenses/Apache-2.0.
 Packages in /opt/barnabas have their licenses in the folders *.dist-info there.
"""
SCRIPTS = ("postinst", "prerm", "postrm")


def build(output: Path, wheel: Path) -> Path:
    """Write the package; return its path."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        make_environment(root, wheel, "deb")
        for path, data in files().items():
            _write(root / path, data)
        (root / "usr/bin").mkdir()
        (root / "usr/bin/barnabas").symlink_to(f"/{PREFIX}/bin/barnabas")
        _write_control(root)
        _normalise(root, source_date())
        package = output / f"barnabas_{VERSION}_amd64.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", str(root), str(package)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source_date())}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return package


def files() -> dict[str, bytes]:
    """Path -> content of everything outside of /opt."""
    date = format_datetime(datetime.fromtimestamp(source_date(), UTC))
    title = f"barnabas ({VERSION}) unstable; urgency=medium"
    changelog = f"{title}\n\n  * Release {__version__}.\n\n -- {MAINTAINER}  {date}\n"
    shared = {f"man/man1/{name}.gz": _compressed(page) for name, page in manual_pages().items()}
    shared |= {name: script.encode() for name, script in completion_scripts().items()}
    shared |= {
        "doc/barnabas/copyright": COPYRIGHT.encode(),
        "doc/barnabas/changelog.Debian.gz": _compressed(changelog),
        "lintian/overrides/barnabas": (SOURCES / "lintian-overrides").read_bytes(),
    }
    return {
        "etc/barnabas/server.properties": (SOURCES / "server.properties").read_bytes(),
        "usr/lib/systemd/system/barnabas.service": UNIT.read_bytes(),
        **{f"usr/share/{name}": data for name, data in shared.items()},
    }


def _write_control(root: Path) -> None:
    installed = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in installed) // 1024
    sums = [(hashlib.md5(path.read_bytes()).hexdigest(), path.relative_to(root)) for path in installed]
    _write(root / "DEBIAN/control", CONTROL.format(size=size).encode())
    _write(root / "DEBIAN/conffiles", b"/etc/barnabas/server.properties\n")
    _write(root / "DEBIAN/md5sums", "".join(f"{digest}  {path}\n" for digest, path in sums).encode())
    for name in SCRIPTS:
        _write(root / "DEBIAN" / name, (SOURCES / name).read_bytes())


def _normalise(root: Path, seconds: int) -> None:
    """Equal modes and times, whatever the umask and the time of the build."""
    for path in [root, *sorted(root.rglob("*"))]:
        if not path.is_symlink():
            is_executable = path.is_dir() or path.parent.name == "bin" or path.name in SCRIPTS
            path.chmod(0o755 if is_executable else 0o644)
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("dist"))
    output = parser.parse_args().output
    path = build(output, newest_wheel(output))
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
