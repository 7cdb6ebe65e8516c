"""Formats of stored objects: keys, manifests, and one object per segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.objects.layout import PartitionFolder as PartitionFolder
    from barnabas.tiering.objects.layout import group_state_key as group_state_key
    from barnabas.tiering.objects.layout import parse_object_name as parse_object_name
    from barnabas.tiering.objects.layout import parse_partition_prefix as parse_partition_prefix
    from barnabas.tiering.objects.layout import parse_segment_name as parse_segment_name
    from barnabas.tiering.objects.layout import topic_prefix as topic_prefix
    from barnabas.tiering.objects.manifest import BadManifestError as BadManifestError
    from barnabas.tiering.objects.manifest import ForeignManifestError as ForeignManifestError
    from barnabas.tiering.objects.manifest import Manifest as Manifest
    from barnabas.tiering.objects.manifest import ManifestState as ManifestState
    from barnabas.tiering.objects.manifest import ManifestWriter as ManifestWriter
    from barnabas.tiering.objects.manifest import SegmentEntry as SegmentEntry
    from barnabas.tiering.objects.manifest import decode as decode
    from barnabas.tiering.objects.manifest import encode as encode
    from barnabas.tiering.objects.manifest_changes import drop_quarantine as drop_quarantine
    from barnabas.tiering.objects.manifest_changes import new_manifest as new_manifest
    from barnabas.tiering.objects.manifest_file import FencedError as FencedError
    from barnabas.tiering.objects.manifest_file import change_manifest as change_manifest
    from barnabas.tiering.objects.manifest_file import check_live as check_live
    from barnabas.tiering.objects.manifest_file import read_manifest as read_manifest
    from barnabas.tiering.objects.manifest_file import read_page as read_page
    from barnabas.tiering.objects.segment_build import InThread as InThread
    from barnabas.tiering.objects.segment_object import BadObjectError as BadObjectError
else:
    __getattr__ = lazy_exports(__name__)
