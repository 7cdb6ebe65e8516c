"""An HTTP feed of orders, paged by cursor, with injectable faults."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "letter-by-letter"
PAGE = 10


class Feed:
    """`/feed?after=N` returns up to ten orders above N, and the next cursor; `/list?since=N` includes N."""

    def __init__(self) -> None:
        self.orders: list[Any] = []
        self.faults: list[int] = []
        """Statuses of the next answers; 0: the connection is closed in the middle of one."""
        self.asked: list[str] = []
        self.port = 0

    def add(self, *orders: Any) -> None:
        self.orders += orders

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def answer(self, path: str) -> Any:
        parts = urlsplit(path)
        requests = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/list":
            start = max(0, int(requests.get("since", 1)) - 1)
            return self.orders[start : start + PAGE]
        first = int(requests.get("after", 0))
        found = self.orders[first : first + PAGE]
        return {"data": {"orders": found}, "meta": {"next": first + len(found)}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    feed: Feed

    def do_GET(self) -> None:
        feed = self.feed
        feed.asked.append(self.path)
        status = feed.faults.pop(0) if feed.faults else 200
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 401
        body = json.dumps(feed.answer(self.path)).encode() if status in (0, 200) else b"no"
        self.send_response(status or 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if status else body[: len(body) // 2])
        if not status:
            self.close_connection = True

    def log_message(self, *source_options: object) -> None:
        pass


@contextmanager
def running_feed() -> Iterator[Feed]:
    feed = Feed()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"feed": feed}))
    feed.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield feed
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
