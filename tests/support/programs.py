"""External programs used by tests, and the skip without them.

`make programs` installs them all, and CI calls it. Elsewhere a test is skipped, and the reason says what to do; with
CI=true it fails instead, so that a broken image cannot hide it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from barnabas.cluster.zookeeper.process import lasting_port

PROJECT_ROOT = Path(__file__).parents[2]
# Debian installs servers in folders that are not on the PATH of every user.
SERVERS = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
_PROMETHEUS = PROJECT_ROOT / ".cache/programs/prometheus/usr/bin"  # `make programs` unpacks it


def find(*names: str) -> list[str]:
    """The paths of programs, all of which a test needs; otherwise it does not run."""
    found = {name: shutil.which(name, path=SERVERS) for name in names}
    lacking = [name for name, path in found.items() if path is None]
    if lacking:
        missing(f"no {' and no '.join(lacking)} here")
    return [path for path in found.values() if path is not None]


def missing(what: str) -> NoReturn:
    reason = f"{what}: `make programs` installs what tests need"
    if in_ci():
        pytest.fail(f"CI must not skip this: {reason}", pytrace=False)
    pytest.skip(reason)


def in_ci() -> bool:
    return os.environ.get("CI") == "true"


def free_port() -> int:
    """A port that is free now, and stays free while a JVM starts."""
    return lasting_port()


def descendants(process: int) -> Iterator[int]:
    """Children of all threads of a process, which may end meanwhile, and their children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def find_promtool() -> str:
    return _find_of_prometheus("promtool")


def find_prometheus() -> str:
    return _find_of_prometheus("prometheus")


def _find_of_prometheus(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(_PROMETHEUS))
    if found is None:
        missing(f"no {name} here")
    return found


def versitygw() -> str | None:
    """The path of an S3 server over a folder, which `make object-stores-install` installs; None if it is missing."""
    installed = PROJECT_ROOT / ".cache/object-stores/versitygw"
    return str(installed) if installed.exists() else shutil.which("versitygw")
