"""Files on any file system that Hadoop knows (local, HDFS, S3 with its jar), through the JVM that Spark has anyway."""

from __future__ import annotations

import posixpath
from typing import Any, NamedTuple

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
        aside = self._path(f".{name}.new")
        stream = self._files.create(aside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        target = self._path(name)
        if self._files.exists(target):
            self._files.delete(target, False)
        self._rename(aside, target)

    def move(self, name: str, target: str) -> None:
        """Rename a file within the folder, over one that an interrupted move has left."""
        path = self._path(target)
        self._files.mkdirs(path.getParent())
        if self._files.exists(path):
            self._files.delete(path, False)
        self._rename(self._path(name), path)

    def delete(self, name: str = "") -> None:
        self._files.delete(self._path(name), True)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._files.rename(source, target):
            raise OSError(f"{source} could not be renamed to {target}")

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.url}/{name}") if name else self._root
