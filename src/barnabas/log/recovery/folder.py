"""What lies in the folder of a partition when it is opened."""

from __future__ import annotations

from barnabas.common.files import FileSystem
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError, decode_epochs, read_if_there
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.scan import SCAN_CHUNK, BadBatch, walk_headers
from barnabas.log.segments.segment import Segment


def offsets_of(present: list[str], suffix: str) -> list[int]:
    """The offsets in the names of all files of one kind."""
    offsets = (names.offset_in_name(name) for name in present if name.endswith(suffix))
    return [offset for offset in offsets if offset is not None]


def find_segments(
    fs: FileSystem, folder: str, present: list[str], open_segments: OpenSegments, now_ms: int
) -> list[Segment]:
    segments = []
    for offset in sorted(offsets_of(present, names.LOG)):
        size = fs.size(names.path_of(folder, offset, names.LOG))
        segment = Segment(fs, folder, offset, open_segments, size)
        segment.created_ms = now_ms
        segments.append(segment)
    return segments


def remove_orphans(fs: FileSystem, folder: str, present: list[str], segments: list[Segment]) -> None:
    """Index files whose segment is gone: a removal was interrupted."""
    known = {segment.base_offset for segment in segments}
    for name in present:
        if name.endswith(names.SEGMENT_SUFFIXES) and names.offset_in_name(name) not in known:
            fs.remove(f"{folder}/{name}")


def read_epochs(fs: FileSystem, folder: str, present: list[str], segments: list[Segment]) -> LeaderEpochs:
    if names.LEADER_EPOCHS not in present:
        return LeaderEpochs()
    try:
        data = read_if_there(fs, f"{folder}/{names.LEADER_EPOCHS}")
        return LeaderEpochs(decode_epochs(data or b""))
    except CheckpointError:
        return _epochs_from_batches(segments)


def _epochs_from_batches(segments: list[Segment]) -> LeaderEpochs:
    """The checkpoint is unreadable, but every batch carries its epoch."""
    epochs = LeaderEpochs()
    try:
        for segment in segments:
            for _, header in walk_headers(segment.file, 0, segment.size, SCAN_CHUNK):
                epochs.assign(header.leader_epoch, header.base_offset)
    except BadBatch:
        pass  # the scan of the segments decides what that means
    epochs.dirty = True
    return epochs
