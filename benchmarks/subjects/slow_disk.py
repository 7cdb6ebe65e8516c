"""A disk that takes long to write, or stalls: a preloaded library delays the writes of a broker to its segments."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
SLOW = {"SLOW_DISK_WRITE_MS": "10", "SLOW_DISK_STALL_MS": "200", "SLOW_DISK_STALL_EVERY_MS": "2000"}
STALLING = {"SLOW_DISK_STALL_MS": "200", "SLOW_DISK_STALL_EVERY_MS": "2000"}


def missing_compiler() -> str | None:
    return None if shutil.which("cc") else "no C compiler"


def on_slow_disk(folder: Path, delays: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a broker on this disk; the library is compiled into the folder."""
    library = folder / "slow_disk.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"], check=True)
    return {**os.environ, **delays, "LD_PRELOAD": str(library)}
