"""Control requests to a running connector, as files in its storage: any process with access to it can send one.

`paused` exists while the connector is paused; the connector deletes `restart` when it carries out the request.
`applied` is the id of the last request of the topic `__barnabas_connect` that became such a file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from barnabas.client import ConnectorRequest
    from barnabas.connect.declaration import Connector

PAUSED, RESTART, APPLIED = "paused", "restart", "applied"


class ControlFolder(Protocol):
    """The subset of HadoopFolder used here."""

    def names(self) -> list[str]: ...

    def read_text(self, name: str) -> str | None: ...

    def write_text(self, name: str, text: str) -> None: ...

    def delete(self, name: str = "") -> None: ...

    def below(self, name: str) -> ControlFolder: ...


class LocalFolder:
    """ControlFolder on a local disk, without a JVM."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def below(self, name: str) -> LocalFolder:
        return LocalFolder(self._path / name)

    def names(self) -> list[str]:
        if not self._path.is_dir():
            return []
        return sorted(one.name for one in self._path.iterdir() if not one.name.startswith("."))

    def read_text(self, name: str) -> str | None:
        try:
            return (self._path / name).read_text()
        except FileNotFoundError:
            return None

    def write_text(self, name: str, text: str) -> None:
        """Write atomically, and delete Hadoop's checksum file, which belongs to the old text."""
        self._path.mkdir(parents=True, exist_ok=True)
        aside = self._path / f".{name}.{os.getpid()}.new"
        aside.write_text(text)
        (self._path / f".{name}.crc").unlink(missing_ok=True)
        aside.replace(self._path / name)

    def delete(self, name: str = "") -> None:
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


class ControlFiles:
    def __init__(self, state: ControlFolder) -> None:
        self._folder = state.below("orders")

    def pause(self) -> None:
        self._folder.write_text(PAUSED, "")

    def resume(self) -> bool:
        """Return False if the connector was not paused."""
        was = PAUSED in self._folder.names()
        self._folder.delete(PAUSED)
        return was

    def restart(self) -> None:
        self._folder.write_text(RESTART, "")

    def apply(self, request: ConnectorRequest) -> bool:
        """Carry out a request of the topic, once; False if that was done before."""
        if self._folder.read_text(APPLIED) == request.id:
            return False
        {"pause": self.pause, "resume": self.resume, "restart": self.restart}[request.request]()
        self._folder.write_text(APPLIED, request.id)
        return True

    def is_paused(self) -> bool:
        return PAUSED in self._folder.names()

    def take_restart(self) -> bool:
        if RESTART not in self._folder.names():
            return False
        self._folder.delete(RESTART)
        return True


def state_url(connector: Connector) -> str:
    """URL of the runner's state of a connector (`running.plan.storage_of`)."""
    return f"{connector.storage.rstrip('/')}/barnabas"


@contextmanager
def state_of(connector: Connector) -> Iterator[ControlFolder]:
    """Open the state folder for a command; starts Spark only if the storage is not a local disk."""
    url = state_url(connector)
    if url.startswith("file:"):
        yield LocalFolder(Path("/" + url.removeprefix("file:").lstrip("/")))
        return
    from barnabas.pipelines.running import pipeline_session
    from barnabas.spark import HadoopFolder

    with pipeline_session(connector.name, connector.configuration) as session:
        yield HadoopFolder(session, url)


def require_stopped(connector: Connector) -> None:
    """Raise PipelineError while a process on this machine runs the connector."""
    from barnabas.pipelines.running import StateLock

    try:
        StateLock(connector.name, state_url(connector)).check()
    except PipelineError as error:
        raise PipelineError(f"{connector.name} is running: stop it first.", str(error)) from None
