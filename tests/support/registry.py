"""Test client of a registry's API: status and JSON."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.parse
from types import TracebackType
from typing import Any, NamedTuple, Self

NEW_FIELDS = {"Confluent-Accept-Unknown-Properties": "true"}  # sent by current clients


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def code(self) -> int:
        number: int = self.body["error_code"]
        return number


class Rest:
    def __init__(self, url: str, login: str = "") -> None:
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        if login:
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, self._headers | headers)
        response = self._connection.getresponse()
        text = response.read()
        return Answer(response.status, json.loads(text) if text else None)

    def text(self, path: str) -> str:
        """An answer that is a schema itself: not always JSON."""
        self._connection.request("GET", path, headers=self._headers)
        return self._connection.getresponse().read().decode()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)

    def put(self, path: str, body: Any) -> Answer:
        return self.ask("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> Answer:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, **more}
        return self.post(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions", body)
