"""What can go wrong with a log, as errors whose text says what to do next."""

from __future__ import annotations

import errno

from barnabas.common.errors import ErrorCode, KafkaError

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}) | OUT_OF_DESCRIPTORS
"""Errors after which the disk is still sound: nothing was written, and a later write may succeed."""


class LogDirError(KafkaError):
    """The disk failed under a log dir: everything in it goes offline until the broker is started again."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{_what_failed(folder, cause)}; check it, then start the broker again",
        )
        self.folder = folder
        self.cause = cause


def _what_failed(folder: str, cause: OSError) -> str:
    if cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        return f"this process cannot work in the folder {folder} ({cause})"
    return f"the disk under {folder} failed ({cause})"


class DiskFull(KafkaError):  # noqa: N818 - reads as what it is
    """There was no room for a write; the log is as it was before."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"no room on the disk under {folder} ({cause}); free some space or shorten the retention"
            if cause.errno not in OUT_OF_DESCRIPTORS
            else f"no file can be opened in {folder} ({cause}); raise the limit of open files (ulimit -n)",
        )
        self.folder = folder


class DiskBusy(DiskFull):
    """A slow disk has enough to write as it is; the log is as it was before, and a later append may succeed."""

    def __init__(self, folder: str, waiting_bytes: int) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk under {folder} is slow, and {waiting_bytes} bytes wait to be written to it",
        )
        self.folder = folder


class DamagedLog(KafkaError):  # noqa: N818 - reads as what it is
    """Bytes that were known to be on the disk are wrong. They are never cut without being asked to."""

    def __init__(self, folder: str, what: str, remedy: str | None = None) -> None:
        remedy = remedy or (
            f"`barnabas log verify {folder}` shows the damage; `barnabas log repair {folder}` cuts it out."
        )
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the log in {folder} is damaged: {what}. The partition stays offline and nothing was changed. {remedy}",
        )
        self.folder = folder
        self.what = what


class MissingLog(DamagedLog):
    """A log dir notes records of a partition whose folder is gone. `is_accepted`: an operator has given them up."""

    def __init__(self, folder: str, topic: str, end: int, *, is_accepted: bool = False) -> None:
        super().__init__(
            folder,
            f"the folder is missing, though this log dir notes its records up to offset {end}",
            "Put the folder back and start the broker again. To give the records up, stop the broker and run "
            f"`barnabas log repair {folder} --accept-loss`, or delete the topic: `barnabas topics delete {topic}`.",
        )
        self.end = end
        self.is_accepted = is_accepted
