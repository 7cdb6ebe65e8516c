"""The incarnation of a cluster: 0, and one more with each restore.

`<cluster id>/incarnation` says which one may write. It counts before leader epochs in every manifest, so a cluster that
was thought lost, and is not, is fenced whatever its epochs are.
"""

from __future__ import annotations

import msgspec

from barnabas.tiering.objects.checked_json import DamagedError, seal, unseal
from barnabas.tiering.objects.layout import incarnation_key
from barnabas.tiering.stores.store import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
)

ATTEMPTS = 5


class Incarnation(msgspec.Struct, frozen=True):
    number: int
    since_ms: int


class DamagedStateError(StoreError):
    """What a cluster has written down of itself cannot be read. It is never overwritten."""


async def read_incarnation(store: ObjectStore, cluster_id: str) -> int:
    """The one that may write; 0 if nothing was written down yet."""
    return (await _read(store, cluster_id))[0]


async def begin_incarnation(store: ObjectStore, cluster_id: str, now_ms: int) -> None:
    """A cluster that runs for the first time says so; it must be there before anything depends on it."""
    try:
        await store.create(incarnation_key(cluster_id), seal(Incarnation(0, now_ms)))
    except ObjectExistsError:
        return


async def raise_incarnation(store: ObjectStore, cluster_id: str, now_ms: int) -> int:
    """The number of a new one. Repeated after a death it gives a later number, which does no harm: the one before
    has fenced the old cluster, and is fenced itself."""
    key = incarnation_key(cluster_id)
    for _ in range(ATTEMPTS):
        number, version = await _read(store, cluster_id)
        data = seal(Incarnation(number + 1, now_ms))
        try:
            await (store.create(key, data) if version is None else store.replace(key, data, version))
        except (ObjectExistsError, StaleVersionError, StoreUnavailableError):
            continue
        return number + 1
    raise StoreUnavailableError(f"{key} was replaced by others, or did not answer, in {ATTEMPTS} attempts")


async def _read(store: ObjectStore, cluster_id: str) -> tuple[int, str | None]:
    key = incarnation_key(cluster_id)
    try:
        found = await store.get(key)
        return unseal(found.data, Incarnation).number, found.version
    except MissingObjectError:
        return 0, None
    except DamagedError as error:
        raise DamagedStateError(f"{key} is damaged: {error}") from error
