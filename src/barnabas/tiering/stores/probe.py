"""Verifies conditional writes of a store. Manifests depend on them: exactly one of several writers may win.

Some S3-compatible stores ignore the condition, others check and then write. One conflicting write detects the first
kind; the second shows only in some races: hence several rounds.
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
ROUNDS = 10  # one round of Adobe's s3mock 4.8.0 in two looks right: of 20 probes of 4 rounds, 19 refused it


class UnsoundStoreError(StoreError):
    """Conditional writes do not hold: nothing may be tiered to this store."""


async def probe(store: ObjectStore, rounds: int = ROUNDS) -> None:
    """Raises UnsoundStoreError; a store that cannot be asked raises what it raises.

    Leaves nothing behind, unless it is cancelled: a store that has not answered in time may not answer a delete either.
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
        # Some close the connection of a PUT without rights; a GET returns the reason. The object may remain: it is
        # unknown whether the delete request has arrived.
        with suppress(MissingObjectError):
            await store.get(key)
        raise
    await _expect_none(store, key)


async def _round(store: ObjectStore, key: str) -> None:
    contents = [b"created by writer %d" % number for number in range(WRITERS)]
    created = await _race(store, key, "create", contents, [store.create(key, data) for data in contents])
    await _expect_refusal(key, "create", store.create(key, b"again"))
    contents = [b"replaced by writer %d" % number for number in range(WRITERS)]
    replaced = await _race(
        store, key, "replace", contents, [store.replace(key, data, created) for data in contents]
    )
    if replaced == created:
        raise _unsound(key, "two contents have one version")
    await _expect_refusal(key, "replace", store.replace(key, b"again", created))


async def _race(
    store: ObjectStore, key: str, what: str, contents: Sequence[bytes], writers: Sequence[Awaitable[str]]
) -> str:
    """The version that the one winner has written."""
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
        raise _unsound(
            key, f"{len(winners)} of {WRITERS} concurrent writers were told that their {what} succeeded"
        )
    if await store.get(key) != winners[0]:
        raise _unsound(key, f"after a {what} the object is not what its one winner wrote")
    return winners[0].version


async def _expect_refusal(key: str, what: str, writing: Awaitable[str]) -> None:
    try:
        await writing
    except LOST:
        return
    raise _unsound(key, f"a {what} in vain succeeded")


async def _expect_none(store: ObjectStore, key: str) -> None:
    try:
        await store.get(key)
    except MissingObjectError:
        return
    raise _unsound(key, "an object that was deleted is still there")


def _unsound(key: str, observed: str) -> UnsoundStoreError:
    return UnsoundStoreError(
        f"{key}: {observed}. Conditional writes do not work in this store, so two brokers could both believe that they "
        "own a partition's history: tiering does not start with it. Use a store that has If-None-Match and If-Match."
    )
