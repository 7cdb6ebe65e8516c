"""Object stores: the interface `ObjectStore`, its implementations, and `open_store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tiering.stores.opening import URL as URL
    from barnabas.tiering.stores.opening import open_store as open_store
    from barnabas.tiering.stores.store import BrowsableStore as BrowsableStore
    from barnabas.tiering.stores.store import MissingObjectError as MissingObjectError
    from barnabas.tiering.stores.store import ObjectExistsError as ObjectExistsError
    from barnabas.tiering.stores.store import ObjectInfo as ObjectInfo
    from barnabas.tiering.stores.store import ObjectStore as ObjectStore
    from barnabas.tiering.stores.store import StaleVersionError as StaleVersionError
    from barnabas.tiering.stores.store import StoreDeniedError as StoreDeniedError
    from barnabas.tiering.stores.store import StoreError as StoreError
    from barnabas.tiering.stores.store import StoreUnavailableError as StoreUnavailableError
    from barnabas.tiering.stores.store import Versioned as Versioned
    from barnabas.tiering.stores.traffic import ReadQuota as ReadQuota
    from barnabas.tiering.stores.traffic import Traffic as Traffic
else:
    __getattr__ = lazy_exports(__name__)
