"""The HTTP source of an agent, with requests, curl, and sockets that send incomplete requests."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from barnabas.common.clock import HAS_BOOT_CLOCK
from barnabas.config.setting import ConfigError
from barnabas.security.tls.authority import Authority
from barnabas.services.ingest.http.settings import HttpSettings
from barnabas.services.ingest.http.source import HttpSource
from barnabas.testing import EmbeddedBroker
from tests.services.ingest.running import Found, RunningAgent, read_records
from tests.support.brokers import BrokerProcess
from tests.support.programs import find
from tests.support.waiting import until

LINES = {"Content-Type": "application/x-ndjson"}


def door(**values: object) -> HttpSource:
    settings = {"topic": f"events-{uuid4().hex}", "listen": "127.0.0.1:0", **values}
    return HttpSource("http", HttpSettings(**settings))  # type: ignore[arg-type]


@pytest.fixture
def http(embedded: EmbeddedBroker) -> Iterator[HttpSource]:
    source = door(max_body_bytes=1_000_000, body_timeout=1.0)
    with RunningAgent(embedded.bootstrap_servers, [source]):
        wait_until_up(source)
        yield source


def wait_until_up(source: HttpSource) -> None:
    until(lambda: requests.get(f"{source.url}/health", timeout=30).status_code == 200, "it is up")


def post(source: HttpSource, body: Any, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(source.url, json=body, headers=named, timeout=60)


def found_in(bootstrap: str, source: HttpSource, count: int) -> list[Any]:
    return [json.loads(each.value) for each in read_records(bootstrap, source.settings.topic, count)]


def test_posted_records_are_committed_at_the_response(bootstrap: str) -> None:
    http = door(
        key_field="user.id", headers=(("env", b"test"),), http_headers=("X-Request-Id",), compression="lz4"
    )
    with RunningAgent(bootstrap, [http]):
        wait_until_up(http)
        answer = post(http, {"user": {"id": "u1"}, "n": 0}, X_Request_Id="r1", X_Other="no")
        assert (answer.status_code, answer.json()) == (200, {"accepted": 1, "topic": http.settings.topic})
        assert "Idempotent-Replay" not in answer.headers
        found = read_records(bootstrap, http.settings.topic, 1)
        assert found == [
            Found(b"u1", b'{"user": {"id": "u1"}, "n": 0}', {"env": b"test", "x-request-id": b"r1"})
        ]
        assert post(http, [{"n": 1}, {"n": 2}]).json()["accepted"] == 2
        packed = gzip.compress(b'{"n":3}\n{"n":4}\n')
        url = f"{http.url}/topics/{http.settings.topic}"
        answer = requests.post(url, data=packed, headers={**LINES, "Content-Encoding": "gzip"}, timeout=60)
        assert answer.json()["accepted"] == 2
        assert sorted(each["n"] for each in found_in(bootstrap, http, 5)) == [0, 1, 2, 3, 4]
        assert (http.counts.received, http.counts.requests >= 4) == (5, True)


def test_curl(http: HttpSource, embedded: EmbeddedBroker, tmp_path: Path) -> None:
    (curl,) = find("curl")
    lines = tmp_path / "events.ndjson"
    lines.write_text("".join(f'{{"n":{number}}}\n' for number in range(20_000)))
    command = [
        curl,
        "--silent",
        "--show-error",
        "--fail-with-body",
        "-H",
        "Content-Type: application/x-ndjson",
    ]
    for more in ([], ["-H", "Transfer-Encoding: chunked"]):
        done = subprocess.run(
            [*command, *more, "--data-binary", f"@{lines}", http.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert json.loads(done.stdout)["accepted"] == 20_000, done.stderr
    assert len(found_in(embedded.bootstrap_servers, http, 40_000)) == 40_000


def test_many_requests_share_a_transaction(embedded: EmbeddedBroker) -> None:
    http = door()
    with RunningAgent(embedded.bootstrap_servers, [http]) as running:
        wait_until_up(http)
        threads = [threading.Thread(target=_post_some, args=(http, 25)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert running.agent is not None
        assert http.counts.received == 200
        assert running.agent.counts.transactions < 200


def _post_some(http: HttpSource, count: int) -> None:
    with requests.Session() as session:
        for number in range(count):
            assert session.post(http.url, json={"n": number}, timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b'{"a":1}\n{"a":\n', LINES, 400, "line 2 is not valid JSON"),
        (b'{"a"', {"Content-Type": "application/json"}, 400, "line 1 is not valid JSON: unexpected end"),
        (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "Content-Type"),
        (b"x" * 1_000_001, LINES, 413, "max_body_bytes"),
        (gzip.compress(b" " * 2_000_000, mtime=0), {**LINES, "Content-Encoding": "gzip"}, 413, "decompressed"),
        (gzip.compress(b"{}", mtime=0)[:-2], {**LINES, "Content-Encoding": "gzip"}, 400, "not valid gzip"),
        (b"1\n" * 20_001, LINES, 413, "max_records"),
        (b'["%s"]' % (b"x" * 900_000), {**LINES, "Origin": "http://evil.example"}, 403, "browser"),
        (b"1", {**LINES, "Idempotency-Key": "k" * 256}, 400, "Idempotency-Key"),
        (b"1", {**LINES, "Idempotency-Key": ""}, 400, "Idempotency-Key"),
    ],
)  # fmt: skip
def test_bad_requests_report_the_error_and_write_nothing(
    body: bytes,
    headers: dict[str, str],
    status: int,
    message: str,
    http: HttpSource,
    embedded: EmbeddedBroker,
) -> None:
    answer = requests.post(http.url, data=body, headers=headers, timeout=60)
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert message in answer.json()["message"]
    assert post(http, "good").status_code == 200
    assert found_in(embedded.bootstrap_servers, http, 1) == ["good"]
    assert http.counts.refused == 1
    assert http.counts.waiting_bytes == 0


def test_a_record_that_the_topic_does_not_take_is_refused_with_its_number(embedded: EmbeddedBroker) -> None:
    http = door()
    embedded.create_topic(http.settings.topic, configs={"max.message.bytes": "2000"})
    with RunningAgent(embedded.bootstrap_servers, [http]):
        wait_until_up(http)
        answer = post(http, ["small", "x" * 2000])
        assert (answer.status_code, answer.json()["line"]) == (413, 2)
        assert post(http, ["x" * 1500] * 5).status_code == 200
        assert len(found_in(embedded.bootstrap_servers, http, 5)) == 5


def test_other_paths_and_methods(http: HttpSource) -> None:
    assert requests.get(http.url, timeout=60).status_code == 405
    assert requests.post(f"{http.url}/topics/other", json=1, timeout=60).status_code == 404
    assert requests.get(f"{http.url}/health", timeout=60).json() == {"status": "up"}


def _connected(http: HttpSource) -> socket.socket:
    host, port = http.endpoints[0]
    connection = socket.create_connection((host, port))
    connection.settimeout(60)
    return connection


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


def test_a_body_that_is_half_there_writes_nothing(http: HttpSource, embedded: EmbeddedBroker) -> None:
    with _connected(http) as slow:
        slow.sendall(HEAD + b'{"a": 1}')
        message = b""
        while piece := slow.recv(4096):
            message += piece
        assert b" 408 " in message
    with _connected(http) as removed:
        removed.sendall(HEAD + b'{"a": 1}')
        removed.shutdown(socket.SHUT_WR)
        removed.recv(4096)
    until(lambda: http.counts.refused == 2, "both were refused")
    assert post(http, "good").status_code == 200
    assert found_in(embedded.bootstrap_servers, http, 1) == ["good"]


def test_a_client_that_never_asks_is_closed_and_there_are_not_too_many(embedded: EmbeddedBroker) -> None:
    http = door(connections=3, incomplete_per_address=3, head_timeout=1.0)
    with RunningAgent(embedded.bootstrap_servers, [http]):
        wait_until_up(http)
        silent, trickling = _connected(http), _connected(http)
        trickling.sendall(b"POST / HT")
        assert _is_closed(silent)
        assert b" 408 " in trickling.recv(4096)
        silent.close()
        trickling.close()
        idle = [_connected(http) for _ in range(10)]
        assert sum(_is_closed(each, 0.5) for each in idle) >= 7
        for each in idle:
            each.close()


def _is_closed(connection: socket.socket, within: float = 60) -> bool:
    connection.settimeout(within)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_the_same_idempotency_key_writes_once(http: HttpSource, embedded: EmbeddedBroker) -> None:
    first = post(http, [1, 2], Idempotency_Key="k1")
    again = post(http, [1, 2], Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["Idempotent-Replay"] == "true"
    assert again.json() == first.json()
    other = post(http, [3], Idempotency_Key="k1")
    assert (other.status_code, "another body" in other.json()["message"]) == (422, True)
    assert post(http, [3], Idempotency_Key="k2").status_code == 200
    assert sorted(found_in(embedded.bootstrap_servers, http, 3)) == [1, 2, 3]
    assert (http.counts.replayed, http.counts.keys) == (1, 2)


@pytest.mark.skipif(not HAS_BOOT_CLOCK, reason="the time since boot is not known here")
def test_a_key_outlives_a_clock_that_jumps_ahead(
    http: HttpSource, embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert post(http, "once", Idempotency_Key="k").status_code == 200
    seconds, nanoseconds, month = time.time, time.time_ns, 30 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: seconds() + month)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + month * 10**9)
    assert post(http, "once", Idempotency_Key="k").headers.get("Idempotent-Replay") == "true"


def test_a_key_is_known_to_the_next_process_of_the_agent(embedded: EmbeddedBroker) -> None:
    http = door()
    with RunningAgent(embedded.bootstrap_servers, [http], "one-name"):
        wait_until_up(http)
        assert post(http, "once", Idempotency_Key="k").status_code == 200
    again = HttpSource("http", http.settings)
    with RunningAgent(embedded.bootstrap_servers, [again], "one-name"):
        wait_until_up(again)
        assert post(again, "once", Idempotency_Key="k").headers["Idempotent-Replay"] == "true"
        assert post(again, "last").status_code == 200
        assert sorted(found_in(embedded.bootstrap_servers, again, 2)) == ["last", "once"]


def test_clients_are_throttled_when_too_much_waits_and_then_get_unavailable(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        http = door(topic="events", queue_bytes=200_000, max_body_bytes=100_000, timeout=3.0)
        with RunningAgent(broker.bootstrap_servers, [http], patience=4.0) as running:
            wait_until_up(http)
            assert post(http, "first").status_code == 200
            broker.kill()
            answers: list[requests.Response] = []
            threads = [
                threading.Thread(target=lambda: answers.append(post(http, "x" * 40_000))) for _ in range(12)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            codes = {answer.status_code for answer in answers}
            assert codes == {429, 503}
            assert all(answer.headers["Retry-After"] == "1" for answer in answers)
            until(lambda: requests.get(f"{http.url}/health", timeout=60).status_code == 503, "it is down")
            at_once = post(http, "no")
            assert (at_once.status_code, "nothing was written" in at_once.json()["message"]) == (503, True)
            broker.start()
            wait_until_up(http)
            assert post(http, "last").status_code == 200
            assert running.error is None


def test_a_broker_that_dies_in_the_middle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Even without keys, as long as the agent lives: it knows which transactions have arrived."""
    with BrokerProcess(tmp_path / "data") as broker:
        http = door(topic="events", timeout=60.0)
        with RunningAgent(broker.bootstrap_servers, [http]):
            wait_until_up(http)
            accepted: list[int] = []
            stop = threading.Event()
            threads = [
                threading.Thread(target=_post_until, args=(http, stop, accepted, first)) for first in range(4)
            ]
            for thread in threads:
                thread.start()
            for _ in range(2):
                before = len(accepted)
                until(lambda before=before: len(accepted) > before + 20, "posts are accepted")  # type: ignore[misc]
                broker.kill()
                broker.start()
            before = len(accepted)
            until(lambda: len(accepted) > before + 20, "posts are accepted")
            stop.set()
            for thread in threads:
                thread.join()
        found = found_in(broker.bootstrap_servers, http, len(accepted))
        assert sorted(found) == sorted(accepted)


def _post_until(http: HttpSource, stop: threading.Event, accepted: list[int], first: int) -> None:
    """Without keys: definitely rejected records are sent again."""
    number = first
    while not stop.is_set():
        answer = post(http, number)
        if answer.status_code == 200:
            accepted.append(number)
            number += 4
        else:
            assert "nothing was written" in answer.json()["message"]
            time.sleep(0.05)  # sooner than Retry-After


def test_a_token_is_needed_where_there_are_tokens(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may write\nsecret-one\nsecret-two\n")
    http = door(token_file=str(tokens))
    with RunningAgent(embedded.bootstrap_servers, [http]):
        wait_until_up(http)
        for bad in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer "},
            {"Authorization": "Basic c2VjcmV0"},
        ):
            answer = post(http, "no", **bad)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert post(http, "yes", Authorization="Bearer secret-two").status_code == 200
        tokens.write_text("secret-three\n")
        assert post(http, "no", Authorization="Bearer secret-two").status_code == 401
        tokens.unlink()
        assert post(http, "no", Authorization="Bearer secret-three").status_code == 401
        assert found_in(embedded.bootstrap_servers, http, 1) == ["yes"]
    with pytest.raises(ConfigError, match="token_file"):
        door(token_file=str(tokens))


def test_tls_with_certificates_of_clients(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.provide(["127.0.0.1", "localhost"])
    http = door(tls_certificate=str(authority.broker), tls_client_ca=str(authority.certificate))
    trusted = str(authority.certificate)
    client = str(authority.client("shop"))
    with RunningAgent(embedded.bootstrap_servers, [http]):

        def is_up() -> bool:
            return (
                requests.get(f"{http.url}/health", verify=trusted, cert=client, timeout=60).status_code == 200
            )

        until(is_up, "it is up")
        assert http.url.startswith("https://")
        with pytest.raises((requests.ConnectionError, ssl.SSLError)):
            requests.post(http.url, json="no", verify=trusted, timeout=60)
        assert requests.post(http.url, json="yes", verify=trusted, cert=client, timeout=60).status_code == 200
        assert found_in(embedded.bootstrap_servers, http, 1) == ["yes"]


def test_requests_that_wait_are_answered_before_the_agent_ends(embedded: EmbeddedBroker) -> None:
    http = door()
    with RunningAgent(embedded.bootstrap_servers, [http]) as running:
        wait_until_up(http)
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(post(http, "x" * 1000).status_code))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        until(lambda: http.counts.requests >= 5 + 1, "some have come")
        running.stop()
        for thread in threads:
            thread.join()
    committed = http.counts.received
    assert answers.count(200) == committed
    assert set(answers) <= {200, 503}
