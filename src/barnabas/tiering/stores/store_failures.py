"""Translate errors of a bucket into messages with advice.

obstore has one class for most errors; the details are in the text: HTTP status, error code of the store, type of
connection failure. The rest of the text is dropped, because URLs in it may contain signatures.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.tiering.stores.store import StoreDeniedError, StoreError, StoreUnavailableError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_CONNECTION = re.compile(r"HttpError \{\s*kind: (\w{1,40})")
# Sources of credentials if none are configured: the metadata services of Amazon, Google and Azure.
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")

NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "InvalidBucketName"})
# Amazon's buckets are unlimited, others are not. 507 is the status of a full one.
FULL = frozenset({"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage",
                  "AccountQuotaExceeded"})  # fmt: skip
ELSEWHERE = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "TemporaryRedirect"})
TRY_LATER = frozenset({408, 409, 425, 429})


class StoreErrorDetails(NamedTuple):
    """Facts extracted from an obstore error."""

    status: int
    """0: no response."""
    code: str
    connection: str
    is_about_credentials: bool

    def __str__(self) -> str:
        if self.status:
            return f"{self.status} {self.code}".strip()
        return {"Connect": "no connection", "Timeout": "timeout"}.get(self.connection, "no answer")


def answer_in(text: str) -> StoreErrorDetails:
    status, code, connection = _STATUS.search(text), _CODE.search(text), _CONNECTION.search(text)
    return StoreErrorDetails(
        int(status[1]) if status else 0,
        code[1] if code else "",
        connection[1] if connection else "",
        any(f"//{service}" in text for service in _METADATA_SERVICES),
    )


def failure(answer: StoreErrorDetails, key: str, bucket: str) -> StoreError:
    """Return the error for failures other than a failed condition or a missing object."""
    if answer.is_about_credentials:
        return StoreUnavailableError(
            f"{bucket}: no credentials are set, and this machine's metadata service has none ({answer}). "
            "Set them in the environment of the broker, or as rsm.config.* ."
        )
    if not answer.status or answer.status >= 500 or answer.status in TRY_LATER:
        return _full(bucket, answer) if _is_full(answer) else _unavailable(bucket, key, answer)
    return _refused(answer, key, bucket)


def is_missing_bucket(answer: StoreErrorDetails) -> bool:
    return answer.code in NO_BUCKET


def _refused(answer: StoreErrorDetails, key: str, bucket: str) -> StoreError:
    if is_missing_bucket(answer):
        return StoreDeniedError(
            f"Bucket {bucket} does not exist ({answer}): create it, or correct barnabas.remote.storage.url."
        )
    if _is_full(answer):
        return _full(bucket, answer)
    if answer.status in (301, 307) or answer.code in ELSEWHERE:
        return StoreDeniedError(f"{bucket} is in another region ({answer}): set rsm.config.region.")
    if answer.status == 416:
        return StoreError(f"{key} in {bucket} is shorter than expected: it was truncated or replaced.")
    if answer.status in (401, 403):
        return StoreDeniedError(
            f"{bucket} denies access to {key} ({answer}): check the credentials, their permissions (get, put, delete, "
            "list), and this machine's clock."
        )
    return StoreDeniedError(
        f"{bucket} rejects a request for {key} ({answer}): check the URL and rsm.config.* ."
    )


def _is_full(answer: StoreErrorDetails) -> bool:
    return answer.status == 507 or answer.code in FULL


def _full(bucket: str, answer: StoreErrorDetails) -> StoreError:
    return StoreDeniedError(f"{bucket} is full ({answer}): free some space, or raise its quota.")


def _unavailable(bucket: str, key: str, answer: StoreErrorDetails) -> StoreError:
    return StoreUnavailableError(
        f"{bucket} cannot be reached, or is too busy, for {key} ({answer}): check the network, rsm.config.endpoint and "
        "the state of the store."
    )
