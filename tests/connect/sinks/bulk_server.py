"""A strict `_bulk` server on loopback that can be busy, slow, or drop connections."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Fault = Callable[["_Handler", bytes], bool]
"""True: it has answered, or cut the connection."""


class BulkServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.documents: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self.faults: list[Fault] = []
        self.busy_items: list[set[str]] = []  # ids that the next request answers with 429
        self.largest = 10_000_000
        self.requests: list[int] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def bodies(self, index: str) -> dict[str, dict[str, Any]]:
        return {name: body for (target, name), (_, body) in self.documents.items() if target == index}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BulkServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.requests.append(len(body))
            if self.server.faults and self.server.faults.pop(0)(self, body):
                return
            if len(body) > self.server.largest:
                self.answer(413, {})
            else:
                assert self.path == "/_bulk"
                assert body.endswith(b"\n")
                self.answer(200, self.carry_out(body))

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        index, _, name = self.path.strip("/").split("/")
        place = (index, unquote(name))
        with self.server.lock:
            is_new = place not in self.server.documents
            self.server.documents.setdefault(place, (0, body))
        self.answer(201 if is_new else 409, {})

    def do_GET(self) -> None:
        index, _, name = self.path.strip("/").split("/")
        self.answer(200, {"_source": self.server.documents[index, unquote(name)][1]})

    def carry_out(self, body: bytes) -> dict[str, Any]:
        busy = self.server.busy_items.pop(0) if self.server.busy_items else set()
        lines = [json.loads(line) for line in body.splitlines()]
        items = [
            {"index": self.item(action["index"], document, busy)}
            for action, document in zip(lines[::2], lines[1::2], strict=True)
        ]
        return {"errors": any(item["index"]["status"] >= 300 for item in items), "items": items}

    def item(self, meta: dict[str, Any], document: dict[str, Any], busy: set[str]) -> dict[str, Any]:
        assert meta["version_type"] == "external"
        if meta["_id"] in busy:
            return {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "queue full"}}
        if isinstance(document.get("amount"), str):
            return {
                "status": 400,
                "error": {"type": "mapper_parsing_exception", "reason": "[amount] is no number"},
            }
        place = (meta["_index"], meta["_id"])
        if place in self.server.documents and self.server.documents[place][0] >= meta["version"]:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "newer"}}
        self.server.documents[place] = (meta["version"], document)
        return {"status": 201}

    def answer(self, status: int, body: Any, **headers: str) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def busy(handler: _Handler, body: bytes) -> bool:
    handler.answer(429, {}, Retry_After="0")
    return True


def cut_before(handler: _Handler, body: bytes) -> bool:
    handler.close_connection = True
    handler.connection.close()
    return True


def cut_after(handler: _Handler, body: bytes) -> bool:
    """Execute the request, but drop the response."""
    handler.carry_out(body)
    return cut_before(handler, body)


def half_an_answer(handler: _Handler, body: bytes) -> bool:
    handler.carry_out(body)
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"items": [')
    handler.wfile.flush()
    return cut_before(handler, body)


@contextmanager
def running_bulk_server(tls: ssl.SSLContext | None = None) -> Iterator[BulkServer]:
    server = BulkServer()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
