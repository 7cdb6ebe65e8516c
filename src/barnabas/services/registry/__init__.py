"""Schema registry with Confluent's REST API; its state is the topic `_schemas`, in Confluent's format.

`model`, `records`, `state` and `subjects` are pure: registered schemas, their records, and the changes of a request.
`formats/` parses schemas, `compatibility/` compares two of them. `store` reads and writes the topic, `leadership`
elects the writer, `access` authorizes requests. `api/` is the HTTP interface, and `server` assembles the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.registry.access import OpenRegistryError as OpenRegistryError
    from barnabas.services.registry.access import needed_acls as needed_acls
    from barnabas.services.registry.peers import InvalidPeerError as InvalidPeerError
    from barnabas.services.registry.peers import parse_peers as parse_peers
    from barnabas.services.registry.server import RegistryServer as RegistryServer
    from barnabas.services.registry.server import RegistrySettings as RegistrySettings
else:
    __getattr__ = lazy_exports(__name__)
