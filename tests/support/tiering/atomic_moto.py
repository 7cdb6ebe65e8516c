"""moto's S3 on a free port, one request at a time.

moto checks the condition of a PUT and writes the object in two steps. Two concurrent conditional PUTs can both
succeed, which no S3 does, and Barnabas refuses such a store. The lock makes a request atomic, as it is in S3.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class AtomicRequests:
    """A WSGI application that runs another one request at a time."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return list(self._application(environ, start_response))


class RequestHandler(MotoRequestHandler):
    def handle_expect_100(self) -> bool:
        """werkzeug sends `100 Continue` too, and AWS's asynchronous client takes a second one for the response."""
        return True


if __name__ == "__main__":
    os.environ.setdefault("MOTO_PORT", "0")
    application = AtomicRequests(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", 0, application, threaded=True, request_handler=RequestHandler)
