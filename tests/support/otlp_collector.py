"""An HTTP server that decodes the metrics it is sent, as an OpenTelemetry collector does."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from barnabas.common.cooperative import finish
from barnabas.handlers.telemetry.otlp import MetricPoint, read_points


class Collector:
    """Accepts reports; the first ones get the `statuses`."""

    def __init__(self, *statuses: int) -> None:
        self.reports: list[dict[str, float]] = []
        self.headers: dict[str, str] = {}
        self.path = ""
        pending = list(statuses)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = pending.pop(0) if pending else 200
                if status == 200:
                    outer.headers, outer.path = dict(self.headers), self.path
                    outer.reports.append(values_of(body, self.headers.get("Content-Encoding")))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class' name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def values_of(body: bytes, encoding: str | None) -> dict[str, float]:
    points: list[MetricPoint] = []
    finish(
        read_points(memoryview(gzip.decompress(body) if encoding == "gzip" else body), 1000, points.append)
    )
    return {f"{point.metric} {dict(point.attributes)['flow']}": point.value for point in points}
