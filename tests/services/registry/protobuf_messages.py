"""A Protobuf message without generated code, from a descriptor built here."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto


def message_class(name: str) -> Any:
    file = FileDescriptorProto(name=f"shop/{name.lower()}.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name=name)
    message.field.add(
        name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
