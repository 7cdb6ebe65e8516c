"""Schemas of a registry, ready for use: Avro for fastavro, Protobuf messages without generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.schemas.formats.avro import ready_schema as ready_schema
    from barnabas.client.schemas.formats.protobuf import ProtoFiles as ProtoFiles
    from barnabas.client.schemas.formats.protobuf import descriptors_of_id as descriptors_of_id
    from barnabas.client.schemas.formats.protobuf import descriptors_of_latest as descriptors_of_latest
    from barnabas.client.schemas.formats.protobuf import well_known_closure as well_known_closure
    from barnabas.client.schemas.formats.protobuf import well_known_files as well_known_files
else:
    __getattr__ = lazy_exports(__name__)
