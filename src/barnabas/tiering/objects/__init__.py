"""Formats of stored objects: keys, manifests, and one object per segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.objects.layout import (
        PartitionFolder,
        group_state_key,
        parse_object_name,
        parse_partition_prefix,
        parse_segment_name,
        topic_prefix,
    )
    from barnabas.tiering.objects.manifest import (
        BadManifestError,
        ForeignManifestError,
        Manifest,
        ManifestState,
        ManifestWriter,
        SegmentEntry,
        decode,
        encode,
    )
    from barnabas.tiering.objects.manifest_changes import drop_quarantine, new_manifest
    from barnabas.tiering.objects.manifest_file import (
        FencedError,
        change_manifest,
        check_live,
        read_manifest,
        read_page,
    )
    from barnabas.tiering.objects.segment_build import InThread
    from barnabas.tiering.objects.segment_object import BadObjectError
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "layout": (
                "PartitionFolder group_state_key parse_object_name parse_partition_prefix parse_segment_name "
                "topic_prefix"
            ),
            "manifest": (
                "BadManifestError ForeignManifestError Manifest ManifestState ManifestWriter SegmentEntry decode "
                "encode"
            ),
            "manifest_changes": "drop_quarantine new_manifest",
            "manifest_file": "FencedError change_manifest check_live read_manifest read_page",
            "segment_build": "InThread",
            "segment_object": "BadObjectError",
        },
    )

__all__ = [
    "BadManifestError",
    "BadObjectError",
    "FencedError",
    "ForeignManifestError",
    "InThread",
    "Manifest",
    "ManifestState",
    "ManifestWriter",
    "PartitionFolder",
    "SegmentEntry",
    "change_manifest",
    "check_live",
    "decode",
    "drop_quarantine",
    "encode",
    "group_state_key",
    "new_manifest",
    "parse_object_name",
    "parse_partition_prefix",
    "parse_segment_name",
    "read_manifest",
    "read_page",
    "topic_prefix",
]
