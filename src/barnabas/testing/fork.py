"""Keeps forked children from sharing an embedded broker's sockets and its lock.

A child of fork (multiprocessing, some test runners) inherits every descriptor. A listening socket that lives
on in a child would accept clients without serving them, and the lock on the data folder would outlive the broker.
"""

from __future__ import annotations

import os
import socket
import stat
import weakref
from collections.abc import Iterator
from typing import NamedTuple, Protocol

LOCK_FILE = ".lock"


class Belongings(NamedTuple):
    """By what a broker's descriptors are recognised."""

    port: int
    data_dir: str


class Owner(Protocol):
    @property
    def belongings(self) -> Belongings | None: ...


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
_registered = False


def let_go_in_child(owner: Owner) -> None:
    """From now on, children of fork drop what the owner says it has at that moment."""
    global _registered
    _owners.add(owner)
    if not _registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)
        _registered = True


def _let_go() -> None:
    belongings = [owner.belongings for owner in _owners]
    for mine in belongings:
        if mine is not None:
            for descriptor in list(_descriptors_of(mine)):
                _blind(descriptor)


def _descriptors_of(mine: Belongings) -> Iterator[int]:
    lock = _identity_of_file(os.path.join(mine.data_dir, LOCK_FILE))
    for name in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the descriptor that listed the folder
        if (status.st_dev, status.st_ino) == lock or (
            stat.S_ISSOCK(status.st_mode) and _local_port(int(name)) == mine.port
        ):
            yield int(name)


def _local_port(descriptor: int) -> int | None:
    """The port of this end; the other end of a client's connection has another one, and is kept."""
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


def _blind(descriptor: int) -> None:
    """Point a descriptor at nothing. Its number stays taken, because objects in the child still hold it."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
