"""Errors of logs and log dirs; their messages say what to do next."""

from __future__ import annotations

import errno

from barnabas.common.errors import ErrorCode, KafkaError

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}) | OUT_OF_DESCRIPTORS
"""Errors that do not take the log dir offline: nothing was written, and a later write may succeed."""


class LogDirError(KafkaError):
    """The disk of a log dir has failed: its partitions are offline until the broker is restarted."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{_what_failed(folder, cause)}; check it, then restart the broker",
        )
        self.folder = folder
        self.cause = cause


def _what_failed(folder: str, cause: OSError) -> str:
    if cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        return f"cannot access the folder {folder} ({cause})"
    return f"the disk of {folder} failed ({cause})"


class DiskFull(KafkaError):  # noqa: N818 - clear without the suffix
    """The disk is full, or the process has too many open files; the log is unchanged."""

    def __init__(self, folder: str, cause: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk of {folder} is full ({cause}); free some space or shorten the retention"
            if cause.errno not in OUT_OF_DESCRIPTORS
            else f"cannot open files in {folder} ({cause}); raise the limit of open files (ulimit -n)",
        )
        self.folder = folder


class DiskBusy(DiskFull):
    """Too many bytes are pending for a slow disk; the log is unchanged, and a later append may succeed."""

    def __init__(self, folder: str, waiting_bytes: int) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk of {folder} is slow: {waiting_bytes} bytes wait to be written",
        )
        self.folder = folder


class DamagedLog(KafkaError):  # noqa: N818 - clear without the suffix
    """Flushed bytes are damaged or missing. They are removed only on request."""

    def __init__(self, folder: str, what: str, remedy: str | None = None) -> None:
        remedy = remedy or (
            f"`barnabas log verify {folder}` shows the damage; `barnabas log repair {folder}` removes it."
        )
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the log in {folder} is damaged: {what}. The partition is offline, and nothing was changed. {remedy}",
        )
        self.folder = folder
        self.what = what


class MissingLog(DamagedLog):
    """The folder of a partition is missing, but checkpoints have it. `is_accepted`: an operator accepted the loss."""

    def __init__(self, folder: str, topic: str, end: int, *, is_accepted: bool = False) -> None:
        super().__init__(
            folder,
            f"the folder is missing, but the checkpoints of this log dir have records up to offset {end}",
            "Restore the folder and restart the broker. To accept the loss of the records, stop the broker and run "
            f"`barnabas log repair {folder} --accept-loss`, or delete the topic: `barnabas topics delete {topic}`.",
        )
        self.end = end
        self.is_accepted = is_accepted
