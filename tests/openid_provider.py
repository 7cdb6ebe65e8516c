"""A real OpenID provider (npm oidc-provider) as a process. It lets everybody in whatever the password."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.apache_kafka import free_port
from tests.kafka_jars import PROJECT_ROOT
from tests.programs import find, missing

INSTALLED = PROJECT_ROOT / ".cache" / "identity-provider"
PROGRAM = Path(__file__).parent / "clients" / "identity_provider" / "provider.mjs"


@contextmanager
def openid_provider(folder: Path, redirect: str = "") -> Iterator[str]:
    """Its address. `redirect` is where people are sent back to who log in at the client `console`."""
    (node,) = find("node")
    if not (INSTALLED / "node_modules").is_dir():
        missing("there is no OpenID provider here (oidc-provider, with npm)")
    shutil.copy(PROGRAM, folder)
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [node, str(folder / PROGRAM.name), str(port), *([redirect] if redirect else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("listening" in line for line in process.stdout)
            yield address
        finally:
            process.terminate()
