"""Programs that tests run beside Python, and what a test does when one is missing.

`make programs` installs them all, and CI calls it. Elsewhere a test is skipped, and the reason says what to do; with
CI=true it fails instead, so that a broken image cannot hide it.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

from tests.kafka_jars import in_ci

# Where Debian has servers, which are not on the path of everybody.
SERVERS = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


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
