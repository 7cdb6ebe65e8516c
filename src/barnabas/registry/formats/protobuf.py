"""Protobuf schemas: .proto texts, or descriptors in base64, as confluent-kafka's serializer for Python sends them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.registry.formats.documents import SchemaSyntaxError
from barnabas.registry.formats.proto_text import proto_text
from barnabas.registry.formats.protoc import MAIN, compile_proto

SERIALIZED = "serialized"  # the format that asks for a descriptor


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    text: str
    files: Any  # a FileDescriptorSet: this schema's file, and all that it imports

    @property
    def file(self) -> Any:
        return next(file for file in self.files.file if file.name == MAIN)

    @property
    def identity(self) -> str:
        """Comments, spaces and the order of options do not matter."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    @property
    def fault(self) -> str:
        return ""

    def normalized(self) -> str:
        return proto_text(self.file)

    def rendered(self, wanted: str) -> str:
        if wanted != SERIALIZED:
            return self.text
        return base64.b64encode(self.file.SerializeToString()).decode()


def parse_protobuf(text: str, dependencies: Mapping[str, str]) -> ProtobufSchema:
    """SchemaSyntaxError says line and column."""
    descriptor = _descriptor(text)
    written = text.strip() if descriptor is None else proto_text(descriptor)
    needed = {name: _text(other) for name, other in dependencies.items()}
    return ProtobufSchema(written, compile_proto(written, needed))


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
