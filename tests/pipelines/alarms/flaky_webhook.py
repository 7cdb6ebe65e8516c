"""A webhook server that fails on demand."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FlakyWebhook:
    """Returns `answers` first, then succeeds."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.location = ""  # where it redirects to
        self.asked = 0
        self.heard: list[list[dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(outer.answer_to(json.loads(body)["alarms"]))
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class' name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alarms"

    def answer_to(self, alarms: list[dict[str, Any]]) -> int:
        self.asked += 1
        if self.answers:
            return self.answers.pop(0)
        self.heard.append(alarms)
        return 204

    @property
    def told(self) -> list[list[tuple[str, str]]]:
        """Ids and outcome of each accepted call."""
        return [[(alarm["id"], alarm["status"]) for alarm in call] for call in self.heard]


@contextmanager
def flaky_webhook() -> Iterator[FlakyWebhook]:
    webhook = FlakyWebhook()
    thread = threading.Thread(target=webhook.server.serve_forever)
    thread.start()
    try:
        yield webhook
    finally:
        webhook.server.shutdown()
        thread.join()
        webhook.server.server_close()
