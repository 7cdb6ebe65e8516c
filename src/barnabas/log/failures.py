"""What can go wrong with a log, as errors whose text says what to do next."""

from __future__ import annotations

import errno

from barnabas.errors import ErrorCode, KafkaError

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors after which the disk is still sound: nothing was written, and a later write may succeed."""


class LogDirError(KafkaError):
    """The disk failed under a log dir: everything in it goes offline until the broker is started again."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk under {folder} failed ({cause}); check the disk, then start the broker again",
        )
        self.folder = folder
        self.cause = cause


class DiskFull(KafkaError):  # noqa: N818 - reads as what it is
    """There was no room for a write; the log is as it was before."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"no room on the disk under {folder} ({cause}); free some space or shorten the retention",
        )
        self.folder = folder


class DamagedLog(KafkaError):  # noqa: N818 - reads as what it is
    """Bytes that were known to be on the disk are wrong. They are never cut without being asked to."""

    def __init__(self, folder: str, what: str) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the log in {folder} is damaged: {what}. The partition stays offline and nothing was changed. "
            f"`barnabas log verify {folder}` shows the damage; `barnabas log repair {folder}` cuts it out.",
        )
        self.folder = folder
        self.what = what
