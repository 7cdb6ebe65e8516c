"""Object stores: the interface `ObjectStore`, its implementations, and `open_store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.stores.opening import URL, open_store
    from barnabas.tiering.stores.store import (
        BrowsableStore,
        MissingObjectError,
        ObjectExistsError,
        ObjectInfo,
        ObjectStore,
        StaleVersionError,
        StoreDeniedError,
        StoreError,
        StoreUnavailableError,
        Versioned,
    )
    from barnabas.tiering.stores.traffic import ReadQuota, Traffic
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "opening": "URL open_store",
            "store": (
                "BrowsableStore MissingObjectError ObjectExistsError ObjectInfo ObjectStore StaleVersionError "
                "StoreDeniedError StoreError StoreUnavailableError Versioned"
            ),
            "traffic": "ReadQuota Traffic",
        },
    )

__all__ = [
    "URL",
    "BrowsableStore",
    "MissingObjectError",
    "ObjectExistsError",
    "ObjectInfo",
    "ObjectStore",
    "ReadQuota",
    "StaleVersionError",
    "StoreDeniedError",
    "StoreError",
    "StoreUnavailableError",
    "Traffic",
    "Versioned",
    "open_store",
]
