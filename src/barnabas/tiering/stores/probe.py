"""Verify the conditional writes of a store. Manifests depend on them: exactly one of several writers may win.

Some S3-compatible stores ignore the condition; others check it non-atomically. One conflicting write detects the
former; the latter fail only in some races, hence several rounds.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
    Versioned,
)

FOLDER = "probe/"
WRITERS = 8
LOST = (ObjectExistsError, StaleVersionError)
ROUNDS = 10  # Adobe's s3mock 4.8.0 passes half of the rounds: of 20 probes of 4 rounds, 19 detected it


class UnsoundStoreError(StoreError):
    """Conditional writes do not work: the store must not be used for tiering."""


async def probe(store: ObjectStore, rounds: int = ROUNDS) -> None:
    """Raise UnsoundStoreError if the store is unsuitable; pass on its errors.

    Deletes its objects unless it is cancelled: a store that did not respond in time may not respond to a delete either.
    """
    key = f"{FOLDER}{uuid.uuid4().hex}"
    try:
        for _ in range(rounds):
            key = f"{FOLDER}{uuid.uuid4().hex}"
            try:
                await _round(store, key)
            except Exception:
                await store.delete(key)
                raise
            await store.delete(key)
    except StoreUnavailableError:
        # Some stores close the connection of an unauthorized PUT; a GET returns the reason. The object may remain:
        # it is unknown if the delete request has arrived.
        with suppress(MissingObjectError):
            await store.get(key)
        raise
    await _expect_none(store, key)


async def _round(store: ObjectStore, key: str) -> None:
    contents = [b"created by writer %d" % number for number in range(WRITERS)]
    created = await _write_concurrently(
        store, key, "create", contents, [store.create(key, data) for data in contents]
    )
    await _expect_refusal(key, "create", store.create(key, b"again"))
    contents = [b"replaced by writer %d" % number for number in range(WRITERS)]
    replaced = await _write_concurrently(
        store, key, "replace", contents, [store.replace(key, data, created) for data in contents]
    )
    if replaced == created:
        raise _unsound(key, "two different contents have the same version")
    await _expect_refusal(key, "replace", store.replace(key, b"again", created))


async def _write_concurrently(
    store: ObjectStore, key: str, what: str, contents: Sequence[bytes], writers: Sequence[Awaitable[str]]
) -> str:
    """Let several writers compete; return the version written by the winner."""
    results = await asyncio.gather(*writers, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, LOST):
            raise result
    winners = [
        Versioned(data, result)
        for data, result in zip(contents, results, strict=True)
        if isinstance(result, str)
    ]
    if len(winners) != 1:
        raise _unsound(key, f"{len(winners)} of {WRITERS} concurrent writers succeeded with a {what}")
    if await store.get(key) != winners[0]:
        raise _unsound(key, f"after a {what} the object does not have the contents of the successful writer")
    return winners[0].version


async def _expect_refusal(key: str, what: str, writing: Awaitable[str]) -> None:
    try:
        await writing
    except LOST:
        return
    raise _unsound(key, f"a {what} succeeded although it must fail")


async def _expect_none(store: ObjectStore, key: str) -> None:
    try:
        await store.get(key)
    except MissingObjectError:
        return
    raise _unsound(key, "a deleted object still exists")


def _unsound(key: str, observed: str) -> UnsoundStoreError:
    return UnsoundStoreError(
        f"{key}: {observed}. Conditional writes do not work in this store, so two brokers could write the same "
        "partition: tiering is not started. Use a store that supports If-None-Match and If-Match."
    )
