"""Files on any file system that Hadoop knows (local, HDFS, S3 with its jar), through the JVM that Spark has anyway."""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from barnabas.pipelines.jvm import jvm_of


class FoundFile(NamedTuple):
    name: str
    """Relative to the folder that was searched."""
    size: int


class HadoopFolder:
    """A folder by its URL. Names are relative to it; folders between are made as needed."""

    def __init__(self, session: SparkSession, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = session
        self._path_class = jvm_of(session).org.apache.hadoop.fs.Path
        self._root = self._path_class(self.url)
        self._files = self._root.getFileSystem(session._jsc.hadoopConfiguration())

    def below(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._session, f"{self.url}/{name}")

    def path_of(self, name: str) -> str:
        return f"{self.url}/{name}"

    def exists(self, name: str = "") -> bool:
        return bool(self._files.exists(self._path(name)))

    def make(self) -> list[HadoopFolder]:
        """Make the folder and those above it; which were missing, the uppermost first."""
        missing, path = [], self._root
        while path is not None and not self._files.exists(path):
            missing.append(HadoopFolder(self._session, path.toString()))
            path = path.getParent()
        self._files.mkdirs(self._root)
        return missing[::-1]

    def names(self) -> list[str]:
        """What lies directly in the folder; nothing if it does not exist."""
        if not self._files.exists(self._root):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._root))

    def all_files(self) -> list[FoundFile]:
        """Every file below the folder, hidden ones left out as Spark and Hive do."""
        if not self._files.exists(self._root):
            return []
        base = self._files.makeQualified(self._root).toUri().getPath()
        found, files = [], self._files.listFiles(self._root, True)
        while files.hasNext():
            status = files.next()
            name = posixpath.relpath(status.getPath().toUri().getPath(), base)
            if not any(part.startswith(("_", ".")) for part in name.split("/")):
                found.append(FoundFile(name, status.getLen()))
        return sorted(found)

    def all_files_by_url(self) -> list[FoundFile]:
        return [FoundFile(self.path_of(found.name), found.size) for found in self.all_files()]

    def read_text(self, name: str) -> str | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(jvm_of(self._session).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Whole or not at all: written aside, then renamed over what was there."""
        aside, target = self._path(f".{name}.new"), self._path(name)
        self._write(aside, text)
        if self._files.exists(target):
            self._files.delete(target, False)
        if not self._files.rename(aside, target):
            raise OSError(f"{aside} could not be renamed to {target}")

    def create_text(self, name: str, text: str) -> bool:
        """A file that was not there before, whole or not at all; False if it is there. Of several processes that try at
        once one succeeds, on local disks and where a rename never replaces a file (HDFS; on S3 it may)."""
        aside = self._path(f".{name}.{uuid.uuid4().hex}.new")
        self._write(aside, text)
        try:
            local = local_path(self._files.resolvePath(aside).toString())
            if local is not None:
                return _linked(local, os.path.join(os.path.dirname(local), name))
            return not self._files.exists(self._path(name)) and self._renamed(aside, self._path(name))
        finally:
            self._files.delete(aside, False)

    def move(self, name: str, target: str) -> None:
        """Rename a file within the folder, unless somebody has. Nobody ever writes another file under the new name."""
        source, path = self._path(name), self._path(target)
        self._files.mkdirs(path.getParent())
        if not self._files.exists(source) or self._renamed(source, path) or not self._files.exists(source):
            return
        if not self._files.exists(path):
            raise OSError(f"{source} could not be renamed to {path}")
        self._files.delete(source, False)  # a rename that is a copy was interrupted after it

    def delete(self, name: str = "") -> None:
        self._files.delete(self._path(name), True)

    def _write(self, path: Any, text: str) -> None:
        stream = self._files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _renamed(self, source: Any, target: Any) -> bool:
        """False when the source has gone, or the target is there: some file systems say so, others throw."""
        try:
            return bool(self._files.rename(source, target))
        except Py4JJavaError:
            return False

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.url}/{name}") if name else self._root


def local_path(url: str) -> str | None:
    """The path of a URL on a disk of this machine; None for what lies elsewhere, or where Hadoop's default says.

    Hadoop does not decode what is in its URLs: `%` is a letter like others.
    """
    scheme, _, path = url.partition(":")
    return f"/{path.lstrip('/')}" if scheme == "file" else None


def _linked(source: str, target: str) -> bool:
    """A second name for a file: unlike a rename, it never replaces one."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without second names: two at once might both succeed
        if os.path.exists(target):
            return False
        os.rename(source, target)
    return True
