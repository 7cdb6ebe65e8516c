"""Files on any Hadoop file system (local, HDFS, S3 with its jar), through Spark's JVM."""

from __future__ import annotations

import contextlib
import os
import posixpath
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from barnabas.spark.java import jvm_of

OBJECT_STORES = frozenset({"s3a", "gs"})
CONDITIONAL = "fs.option.create.conditional.overwrite"
REFUSALS = frozenset(
    {"RemoteFileChangedException", "FileAlreadyExistsException"}
)  # Hadoop's exceptions for a 412
LISTINGS = 5  # attempts: a subfolder may be deleted during a listing, seldom twice


class FoundFile(NamedTuple):
    name: str
    """Relative to the folder that was searched."""
    size: int


class HadoopFolder:
    """A folder by URL. Names are relative to it; intermediate folders are created as needed."""

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
        """Create the folder and its parents; return those that were missing, the topmost first."""
        missing, path = [], self._root
        while path is not None and not self._files.exists(path):
            missing.append(HadoopFolder(self._session, path.toString()))
            path = path.getParent()
        self._files.mkdirs(self._root)
        return missing[::-1]

    def names(self) -> list[str]:
        """Entries of the folder, without files that are being written; empty if it does not exist."""
        if not self._files.exists(self._root):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(self._root)]
        return sorted(name for name in names if not name.startswith("."))

    def all_files(self) -> list[FoundFile]:
        """Every file below the folder, without hidden ones, as in Spark."""
        return [found for found in self._listed() if not is_hidden(found.name)]

    def written_files(self) -> list[FoundFile]:
        """Files that Spark has written to the folder. Missing any of them would lose records."""
        listed = self._listed()
        found = [file for file in listed if not is_hidden(file.name)]
        unseen = [file for file in listed if _has_rows(file.name)]
        if unseen and not found:
            raise OSError(
                f"Spark has written {len(unseen)} files to folders whose names readers ignore, "
                f"for example {self.path_of(unseen[0].name)}: rename the partition columns."
            )
        return found

    def written_files_by_url(self) -> list[FoundFile]:
        return [FoundFile(self.path_of(found.name), found.size) for found in self.written_files()]

    def read_text(self, name: str) -> str | None:
        """None if the file does not exist. An object that is replaced during the read is read again."""
        for _ in range(LISTINGS - 1):
            try:
                return self._read_once(name)
            except Py4JJavaError as error:
                if not (self.has_objects and "Status Code: 412" in str(error)):
                    raise
        return self._read_once(name)

    def _read_once(self, name: str) -> str | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(jvm_of(self._session).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Atomic on local disks and HDFS: written under a temporary name, then renamed over the old file. An object
        appears when it is complete. Elsewhere the old file is deleted first; a crash in between leaves none."""
        if self.has_objects:
            self._write(self._path(name), text)
            return
        aside = self._path(f".{name}.{uuid.uuid4().hex}.new")
        self._write(aside, text)
        local = local_path(self._files.resolvePath(aside).toString())
        if local is not None:
            _replace(local, os.path.join(os.path.dirname(local), name))
        elif not self._renamed_over(aside, name):
            self._files.delete(self._path(name), False)
            if not self._files.rename(aside, self._path(name)):
                raise OSError(f"{aside} could not be renamed to {self._path(name)}")

    def create_text(self, name: str, text: str) -> bool:
        """Create a file, complete or not at all; False if it exists. Of several concurrent processes one succeeds: on
        local disks, where a rename never replaces a file (HDFS), and on object stores with conditional writes (S3). No
        two of them may write the same text."""
        if self.has_objects:
            return self._created(name, text)
        aside = self._path(f".{name}.{uuid.uuid4().hex}.new")
        self._write(aside, text)
        try:
            local = local_path(self._files.resolvePath(aside).toString())
            if local is not None:
                return _linked(local, os.path.join(os.path.dirname(local), name))
            return not self._files.exists(self._path(name)) and self._renamed(aside, self._path(name))
        finally:
            self._files.delete(aside, False)

    def creates_once(self) -> bool:
        """True if `create_text` is exclusive here: tested, because some object stores ignore the condition."""
        if not self.has_objects:
            return True
        name = f".probe-{uuid.uuid4().hex}"
        try:
            return (
                self._has_conditions
                and self.create_text(name, "first")
                and not self.create_text(name, "second")
            )
        finally:
            self.delete(name)

    def move(self, name: str, target: str) -> None:
        """Rename a file within the folder, unless already done. The new name is never used for another file."""
        source, path = self._path(name), self._path(target)
        self._files.mkdirs(path.getParent())
        if not self._files.exists(source) or self._renamed(source, path) or not self._files.exists(source):
            return
        if not self._files.exists(path):
            raise OSError(f"{source} could not be renamed to {path}")
        self._files.delete(source, False)  # left over if a rename by copy was interrupted

    def delete(self, name: str = "") -> None:
        self._files.delete(self._path(name), True)

    def _listed(self) -> list[FoundFile]:
        for _ in range(LISTINGS - 1):
            try:
                return self._listed_once()
            except Py4JJavaError as error:
                if _kind(error) != "FileNotFoundException":
                    raise
        return self._listed_once()

    def _listed_once(self) -> list[FoundFile]:
        if not self._files.exists(self._root):
            return []
        local = local_path(self._files.resolvePath(self._root).toString())
        if local is not None:
            return sorted(_walked(local))
        base = self._files.makeQualified(self._root).toUri().getPath()
        found, files = [], self._files.listFiles(self._root, True)
        while files.hasNext():
            status = files.next()
            name = posixpath.relpath(status.getPath().toUri().getPath(), base)
            found.append(FoundFile(name, status.getLen()))
        return sorted(found)

    def _write(self, path: Any, text: str) -> None:
        stream = self._files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    @property
    def has_objects(self) -> bool:
        """Objects appear complete when their stream is closed, and a rename is a copy."""
        return self._files.getScheme() in OBJECT_STORES

    @property
    def _has_conditions(self) -> bool:
        return bool(self._files.hasPathCapability(self._root, CONDITIONAL))

    def _created(self, name: str, text: str) -> bool:
        """One conditional PUT. If its response is lost, the retry is rejected: then compare the text with ours."""
        path = self._path(name)
        if not self._has_conditions:
            if self._files.exists(path):
                return False
            self._write(path, text)
            return True
        creation = self._files.createFile(path)
        creation.recursive()
        creation.overwrite(True)  # saves an existence check before the PUT
        creation.must(CONDITIONAL, True)
        stream = creation.build()
        try:
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError as error:
            if _kind(error) not in REFUSALS:
                raise
            return self.read_text(name) == text
        return True

    def _renamed(self, source: Any, target: Any) -> bool:
        """False if the source is missing or the target exists: some file systems return false, others throw."""
        try:
            return bool(self._files.rename(source, target))
        except Py4JJavaError:
            return False

    def _renamed_over(self, source: Any, name: str) -> bool:
        """Rename that replaces, from Hadoop's newer API; False if the file system only has the old one."""
        hadoop, gateway = jvm_of(self._session).org.apache.hadoop.fs, self._session.sparkContext._gateway
        assert gateway is not None, "a session has a JVM"
        ways = gateway.new_array(hadoop.Options.Rename, 1)
        ways[0] = hadoop.Options.Rename.OVERWRITE
        resolved = self._files.resolvePath(source)
        try:
            files = hadoop.FileContext.getFileContext(resolved.toUri(), self._files.getConf())
        except Py4JJavaError as error:
            if _kind(error) == "UnsupportedFileSystemException":
                return False
            raise
        files.rename(resolved, self._path_class(resolved.getParent(), name), ways)
        return True

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.url}/{name}") if name else self._root


def is_hidden(name: str) -> bool:
    """Spark's rule: `_day=7` is a partition folder, not a hidden one."""
    parts = name.split("/")
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def _has_rows(name: str) -> bool:
    """True for a result file of Spark: not a marker, a checksum or output of an aborted task."""
    return not name.startswith("_temporary/") and not posixpath.basename(name).startswith(("_", "."))


def local_path(url: str) -> str | None:
    """Local path of a URL; None for a remote path, or one that depends on Hadoop's default file system.

    Hadoop does not decode its URLs: `%` is an ordinary character.
    """
    scheme, _, path = url.partition(":")
    return f"/{path.lstrip('/')}" if scheme == "file" else None


def _walked(root: str) -> Iterator[FoundFile]:
    """Without its native library, Hadoop starts an `ls` per local file and fails if one was deleted."""
    for folder, _, names in os.walk(root, onerror=_unless_gone, followlinks=True):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                yield FoundFile(os.path.relpath(path, root), os.path.getsize(path))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _linked(source: str, target: str) -> bool:
    """Hard-link a file: unlike a rename, it never replaces one."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # no hard links: two processes might both succeed
        if os.path.exists(target):
            return False
        os.rename(source, target)
    return True


def _replace(source: str, target: str) -> None:
    """Replace atomically. Hadoop stores checksums next to local files: delete the checksum of the old text."""
    _forget_checksum(target)
    os.replace(source, target)
    _forget_checksum(source)


def _forget_checksum(path: str) -> None:
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, f".{name}.crc"))


def _kind(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())
