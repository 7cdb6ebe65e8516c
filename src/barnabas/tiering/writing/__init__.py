"""Copies a led partition to the object store: claim, sweep, copy, expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.writing.claim import Claim as Claim
    from barnabas.tiering.writing.claim import Decision as Decision
    from barnabas.tiering.writing.claim import LogView as LogView
    from barnabas.tiering.writing.expiration import delete_partition as delete_partition
    from barnabas.tiering.writing.pacing import At as At
    from barnabas.tiering.writing.pacing import StoreBackoff as StoreBackoff
    from barnabas.tiering.writing.pacing import UploadLimiter as UploadLimiter
    from barnabas.tiering.writing.pacing import nowhere as nowhere
    from barnabas.tiering.writing.remote_writer import RemoteWriter as RemoteWriter
    from barnabas.tiering.writing.remote_writer import WriterSettings as WriterSettings
    from barnabas.tiering.writing.remote_writer import WriterState as WriterState
else:
    __getattr__ = lazy_exports(__name__)
