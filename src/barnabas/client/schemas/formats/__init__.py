"""Schemas of a registry, ready for use: Avro for fastavro, Protobuf messages without generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.schemas.formats.avro import ready_schema
    from barnabas.client.schemas.formats.protobuf import (
        ProtoFiles,
        descriptors_of_id,
        descriptors_of_latest,
        well_known_files,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "avro": "ready_schema",
            "protobuf": "ProtoFiles descriptors_of_id descriptors_of_latest well_known_files",
        },
    )

__all__ = ["ProtoFiles", "descriptors_of_id", "descriptors_of_latest", "ready_schema", "well_known_files"]
