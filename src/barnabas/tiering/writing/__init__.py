"""Copies a led partition to the object store: claim, sweep, copy, expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.writing.claim import Claim, Decision, LogView
    from barnabas.tiering.writing.expiration import delete_partition
    from barnabas.tiering.writing.pacing import At, StoreBackoff, UploadLimiter, nowhere
    from barnabas.tiering.writing.remote_writer import RemoteWriter, WriterSettings, WriterState
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "claim": "Claim Decision LogView",
            "expiration": "delete_partition",
            "pacing": "At StoreBackoff UploadLimiter nowhere",
            "remote_writer": "RemoteWriter WriterSettings WriterState",
        },
    )

__all__ = [
    "At",
    "Claim",
    "Decision",
    "LogView",
    "RemoteWriter",
    "StoreBackoff",
    "UploadLimiter",
    "WriterSettings",
    "WriterState",
    "delete_partition",
    "nowhere",
]
