"""Data folders: identity, file system, free space, and how long an fsync takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from barnabas.cli.doctor.finding import Finding, ok, problem, warning
from barnabas.cli.output import size
from barnabas.common.errors import KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import CLEAN_SHUTDOWN, is_locked, read_identity, reserved_bytes

MOUNTS = Path("/proc/self/mounts")
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "glusterfs"})
TEMPORARY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
FEW_INODES = 10_000

FSYNCS = 15
FSYNC_BYTES = 4096
SLOW_FSYNC = 0.02  # an acks=all request waits for one
TEST_FILE = ".barnabas-doctor.tmp"


def check_storage(config: BrokerConfig) -> Iterator[Finding]:
    for folder in map(Path, config.log_dirs):
        check = f"data {folder}"
        if not folder.exists():
            yield _missing_folder(check, folder)
        elif not folder.is_dir():
            yield problem(check, "is not a folder", "Set log.dirs (--data) to a folder.")
        else:
            yield from _check_folder(check, folder, config)


def is_in_use(config: BrokerConfig) -> bool:
    """Return True if a broker runs on one of these data folders."""
    return any(map(is_locked, config.log_dirs))


def _missing_folder(check: str, folder: Path) -> Finding:
    parent = next(one for one in folder.absolute().parents if one.exists())
    if os.access(parent, os.W_OK):
        return ok(check, "does not exist yet; the broker creates it")
    remedy = f"Create it as an administrator and make it the broker's: install -d -o USER {folder}"
    return problem(check, f"does not exist, and {parent} is not writable", remedy)


def _check_folder(check: str, folder: Path, config: BrokerConfig) -> Iterator[Finding]:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            check, "is not readable and writable", f"chown it to the account of the broker: {folder}"
        )
        return
    yield _identity(check, folder, config)
    yield _space(check, folder, config["barnabas.disk.reserve.bytes"])
    kind = file_system_of(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        remedy = "Use a local disk: locks and fsync of network file systems do not give Kafka's guarantees."
        yield warning(check, f"is on {kind}", remedy)
    if kind in TEMPORARY_FILE_SYSTEMS:
        yield warning(check, f"is on {kind}: a restart of the machine deletes it", "Use a disk.")
    if not LocalFileSystem().is_private(str(folder)):
        yield warning(check, "is readable by other accounts", f"chmod -R go= {folder}")
    if not is_locked(str(folder)):
        yield _fsync(check, folder)


def _identity(check: str, folder: Path, config: BrokerConfig) -> Finding:
    try:
        meta = read_identity(LocalFileSystem(), str(folder))
    except KafkaError as error:
        remedy = "Restore meta.properties from a backup: it has the ids of the cluster and of the broker."
        return problem(check, str(error), remedy)
    if meta is None:
        return ok(check, "has no data yet")
    text = f"broker {meta.node_id} of cluster {meta.cluster_id}"
    if meta.node_id != config.node_id:
        remedy = f"Set node.id={meta.node_id} (--node-id), or use another data folder."
        return problem(check, f"belongs to {text}, but node.id is {config.node_id}", remedy)
    if is_locked(str(folder)):
        return ok(check, f"{text}, in use by a running broker")
    is_clean = (folder / CLEAN_SHUTDOWN).exists()
    return ok(
        check, f"{text}, {'stopped cleanly' if is_clean else 'not stopped cleanly: the next start recovers'}"
    )


def _space(check: str, folder: Path, setting: int) -> Finding:
    usage, inodes = shutil.disk_usage(folder), os.statvfs(folder).f_favail
    reserve = reserved_bytes(setting, usage.total)
    text = f"{size(usage.free)} of {size(usage.total)} free; appends are refused below {size(reserve)}"
    remedy = (
        "Free some space, shorten the retention, or add a disk to log.dirs (barnabas.disk.reserve.bytes)."
    )
    if usage.free < reserve:
        return problem(check, text, remedy)
    if usage.free < 2 * reserve:
        return warning(check, text, remedy)
    if 0 < inodes < FEW_INODES:
        return warning(
            check, f"{inodes:,} files can be created", "Free inodes: each segment is up to five files."
        )
    return ok(check, text)


def file_system_of(folder: Path) -> str:
    """Type of the file system of a folder; empty if unknown."""
    try:
        mounts = [line.split()[1:3] for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    path = str(folder.resolve())
    above = [(where, kind) for where, kind in mounts if f"{path}/".startswith(f"{where.rstrip('/')}/")]
    return max(above, key=lambda mount: len(mount[0]), default=("", ""))[1]


def _fsync(check: str, folder: Path) -> Finding:
    path = folder / TEST_FILE
    try:
        seconds = _seconds_of_fsyncs(path)
    except OSError as error:
        return problem(
            check, f"a test file cannot be written: {error.strerror}", "Check the disk and its log."
        )
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    median = statistics.median(seconds)
    text = f"an fsync takes {median * 1000:.1f} ms (largest of {FSYNCS}: {max(seconds) * 1000:.0f} ms)"
    if median > SLOW_FSYNC:
        return warning(check, text, "acks=all waits for it on a single node: use a faster disk.")
    return ok(check, text)


def _seconds_of_fsyncs(path: Path) -> list[float]:
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            file.write(os.urandom(FSYNC_BYTES))
            start = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - start)
    return seconds
