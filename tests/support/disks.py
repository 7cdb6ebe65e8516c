"""A separate small disk for a broker: a tmpfs, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

MEGABYTES = 256


def may_mount() -> bool:
    return os.name == "posix" and os.geteuid() == 0 and Path("/proc/mounts").exists()


class SmallDisk:
    def __init__(self, mount_point: Path) -> None:
        self.mount_point = mount_point
        self._filling = mount_point / "somebody-elses-file"
        self._is_mounted = False

    def mount(self) -> bool:
        """False where that is not allowed, in a container for example."""
        self.mount_point.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(self.mount_point)]
        self._is_mounted = may_mount() and subprocess.run(command, capture_output=True).returncode == 0
        return self._is_mounted

    def unmount(self) -> None:
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", str(self.mount_point)], check=True)
            self._is_mounted = False

    def fill(self, leaving: int = 0) -> None:
        """Leave no room for a single byte, or for so many."""
        with self._filling.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                _write_while_there_is_room(file.fileno(), bytes(size))
            os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - leaving)

    def make_room(self) -> None:
        self._filling.unlink(missing_ok=True)


def _write_while_there_is_room(fd: int, piece: bytes) -> None:
    while True:
        try:
            os.write(fd, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return
