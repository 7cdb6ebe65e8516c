"""Protobuf schemas: .proto texts, or descriptors in base64, as confluent-kafka's serializer for Python sends them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.services.registry.formats.documents import SchemaSyntaxError
from barnabas.services.registry.formats.proto_repairs import compile_leniently
from barnabas.services.registry.formats.proto_text import proto_text
from barnabas.services.registry.formats.protoc import MAIN

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
