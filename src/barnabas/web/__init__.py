"""HTTP for the services: the uvicorn server with its limits (`WebServer`), the `/metrics` server (`MetricsServer`), the
router, request bodies and responses, the current user, credentials, and checks against pages of other sites.

A service subclasses `Server` and gives its ASGI application to a `WebServer`; `run` runs it as a process. Names are
imported on first use: a broker loads only the metrics server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.web.bodies import BodyEndedError, BodyTooLargeError, Receive, Scope, headers_of, read_body
    from barnabas.web.credentials import CredentialFile, HttpCredentials, credentials_from
    from barnabas.web.metrics_server import MetricsServer, metrics_server_limits, run_in_thread
    from barnabas.web.origins import has_foreign_origin, host_name, is_cross_site, is_loopback_host
    from barnabas.web.responses import Headers, ResponseWriter, Send
    from barnabas.web.router import Match, MethodNotAllowedError, NotFoundError, Route, Router
    from barnabas.web.server import (
        PEER_CERTIFICATE,
        App,
        Server,
        WebLimits,
        WebServer,
        bind,
        parse_networks,
        run,
    )
    from barnabas.web.users import ANONYMOUS, AnonymousUser, CurrentUser
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "bodies": "BodyEndedError BodyTooLargeError Receive Scope headers_of read_body",
            "credentials": "CredentialFile HttpCredentials credentials_from",
            "metrics_server": "MetricsServer metrics_server_limits run_in_thread",
            "origins": "has_foreign_origin host_name is_cross_site is_loopback_host",
            "responses": "Headers ResponseWriter Send",
            "router": "Match MethodNotAllowedError NotFoundError Route Router",
            "server": "PEER_CERTIFICATE App Server WebLimits WebServer bind parse_networks run",
            "users": "ANONYMOUS AnonymousUser CurrentUser",
        },
    )

__all__ = [
    "ANONYMOUS",
    "PEER_CERTIFICATE",
    "AnonymousUser",
    "App",
    "BodyEndedError",
    "BodyTooLargeError",
    "CredentialFile",
    "CurrentUser",
    "Headers",
    "HttpCredentials",
    "Match",
    "MethodNotAllowedError",
    "MetricsServer",
    "NotFoundError",
    "Receive",
    "ResponseWriter",
    "Route",
    "Router",
    "Scope",
    "Send",
    "Server",
    "WebLimits",
    "WebServer",
    "bind",
    "credentials_from",
    "has_foreign_origin",
    "headers_of",
    "host_name",
    "is_cross_site",
    "is_loopback_host",
    "metrics_server_limits",
    "parse_networks",
    "read_body",
    "run",
    "run_in_thread",
]
