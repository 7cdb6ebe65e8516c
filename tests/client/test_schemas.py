"""Values with a schema id, and a client that requests each schema once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.schemas.client import (
    NotFramedError,
    RegistryError,
    Schema,
    SchemaClient,
    decode,
    encode,
    join_message_index,
    split_message_index,
)


@given(st.integers(0, 2**31 - 1), st.binary(max_size=20))
def test_encoded_values_are_decoded(schema_id: int, payload: bytes) -> None:
    assert decode(encode(schema_id, payload)) == (schema_id, payload)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.binary(max_size=20))
def test_the_path_of_a_message_comes_back(path: list[int], message: bytes) -> None:
    assert split_message_index(join_message_index(path, message)) == (tuple(path), message)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"plain text", b"\1\0\0\0\1x"])
def test_bytes_without_a_schema_id_are_distinguished(data: bytes) -> None:
    with pytest.raises(NotFramedError):
        decode(data)


@given(st.binary(max_size=12))
def test_a_broken_path_is_an_error_and_nothing_else(payload: bytes) -> None:
    try:
        split_message_index(payload)
    except NotFramedError:
        return


class Registry(BaseHTTPRequestHandler):
    """Answers all lookups on one connection; the third response is truncated."""

    protocol_version = "HTTP/1.1"
    asked: list[str] = []  # noqa: RUF012 - one server, one test

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"schema": '"int"'}).encode()
        status = 404 if self.path.endswith("404") else 200
        if status == 404:
            body = b'{"error_code":40403,"message":"Schema 404 not found"}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + (5 if self.path.endswith("13") else 0)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.path.endswith("13")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_schema_is_requested_once_and_errors_have_their_code(url: str) -> None:
    with SchemaClient(url) as client:
        assert client.schema(1) == client.schema(1) == Schema("AVRO", '"int"')
        assert Registry.asked == ["/schemas/ids/1"]
        with pytest.raises(RegistryError, match="404 not found") as refused:
            client.schema(404)
        assert refused.value.code == 40403
        with pytest.raises(RegistryError, match="did not respond"):
            client.schema(13)  # half an answer is none


def test_invalid_address_is_reported_with_an_example() -> None:
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        SchemaClient("127.0.0.1:8081")
