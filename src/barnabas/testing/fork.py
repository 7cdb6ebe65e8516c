"""Closes the descriptors of embedded brokers in forked child processes.

A forked child (multiprocessing, some test runners) inherits all descriptors. An inherited listening socket would accept
clients without serving them, and the lock on the data directory would outlive the broker.
"""

from __future__ import annotations

import os
import socket
import stat
import weakref
from collections.abc import Iterator
from typing import NamedTuple, Protocol

LOCK_FILE = ".lock"


class ForkResources(NamedTuple):
    """Port and data directory that identify a broker's descriptors."""

    port: int
    data_dir: str


class Owner(Protocol):
    @property
    def fork_resources(self) -> ForkResources | None: ...


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
_registered = False


def release_in_child(owner: Owner) -> None:
    """Close the owner's descriptors in processes forked from now on."""
    global _registered
    _owners.add(owner)
    if not _registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_release_all)
        _registered = True


def _release_all() -> None:
    owned = [owner.fork_resources for owner in _owners]
    for resources in owned:
        if resources is not None:
            for descriptor in list(_descriptors_of(resources)):
                _redirect_to_null(descriptor)


def _descriptors_of(resources: ForkResources) -> Iterator[int]:
    lock = _identity_of_file(os.path.join(resources.data_dir, LOCK_FILE))
    for name in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the directory listing itself
        if (status.st_dev, status.st_ino) == lock or (
            stat.S_ISSOCK(status.st_mode) and _local_port(int(name)) == resources.port
        ):
            yield int(name)


def _local_port(descriptor: int) -> int | None:
    """Return the local port of a socket. Client sockets in this process have another one and are kept."""
    with socket.socket(fileno=os.dup(descriptor)) as view:
        if view.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        port: int = view.getsockname()[1]
        return port


def _identity_of_file(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _redirect_to_null(descriptor: int) -> None:
    """Redirect a descriptor to /dev/null instead of closing it, because objects in the child still use its number."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)
