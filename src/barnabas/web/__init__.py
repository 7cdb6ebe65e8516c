"""HTTP for the services: the uvicorn server with its limits (`WebServer`), the `/metrics` server (`MetricsServer`), the
router, request bodies and responses, the current user, credentials, and checks against pages of other sites.

A service subclasses `Server` and gives its ASGI application to a `WebServer`; `run` runs it as a process. Names are
imported on first use: a broker loads only the metrics server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.web.asgi import BodyEndedError as BodyEndedError
    from barnabas.web.asgi import BodyTooLargeError as BodyTooLargeError
    from barnabas.web.asgi import Headers as Headers
    from barnabas.web.asgi import Receive as Receive
    from barnabas.web.asgi import ResponseWriter as ResponseWriter
    from barnabas.web.asgi import Scope as Scope
    from barnabas.web.asgi import Send as Send
    from barnabas.web.asgi import headers_of as headers_of
    from barnabas.web.asgi import read_body as read_body
    from barnabas.web.credentials import CredentialFile as CredentialFile
    from barnabas.web.credentials import HttpCredentials as HttpCredentials
    from barnabas.web.credentials import credentials_from as credentials_from
    from barnabas.web.metrics_server import MetricsServer as MetricsServer
    from barnabas.web.metrics_server import metrics_server_limits as metrics_server_limits
    from barnabas.web.metrics_server import run_in_thread as run_in_thread
    from barnabas.web.origins import has_foreign_origin as has_foreign_origin
    from barnabas.web.origins import host_name as host_name
    from barnabas.web.origins import is_cross_site as is_cross_site
    from barnabas.web.origins import is_loopback_host as is_loopback_host
    from barnabas.web.router import Match as Match
    from barnabas.web.router import MethodNotAllowedError as MethodNotAllowedError
    from barnabas.web.router import NotFoundError as NotFoundError
    from barnabas.web.router import Route as Route
    from barnabas.web.router import Router as Router
    from barnabas.web.server import PEER_CERTIFICATE as PEER_CERTIFICATE
    from barnabas.web.server import Server as Server
    from barnabas.web.server import WebLimits as WebLimits
    from barnabas.web.server import WebServer as WebServer
    from barnabas.web.server import bind as bind
    from barnabas.web.server import parse_networks as parse_networks
    from barnabas.web.server import run as run
    from barnabas.web.users import ANONYMOUS as ANONYMOUS
    from barnabas.web.users import AnonymousUser as AnonymousUser
    from barnabas.web.users import CurrentUser as CurrentUser
else:
    __getattr__ = lazy_exports(__name__)
