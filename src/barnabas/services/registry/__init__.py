"""A schema registry with Confluent's REST API; its state is the topic `_schemas`, in the format that others read too.

`model`, `records`, `state` and `subjects` are pure: what is registered, how it is written down, what a request changes.
`formats/` reads schemas, `compatibility/` compares two of them. `store` reads and writes the topic, `leadership` says
who may write, `access` who may do what. `api/` is HTTP, and `server` puts it together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.registry.access import OpenRegistryError
    from barnabas.services.registry.needs import needed_acls
    from barnabas.services.registry.peers import InvalidPeerError, parse_peers
    from barnabas.services.registry.server import RegistryServer, RegistrySettings
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "access": "OpenRegistryError",
            "needs": "needed_acls",
            "peers": "InvalidPeerError parse_peers",
            "server": "RegistryServer RegistrySettings",
        },
    )

__all__ = [
    "InvalidPeerError",
    "OpenRegistryError",
    "RegistryServer",
    "RegistrySettings",
    "needed_acls",
    "parse_peers",
]
