"""Listening agents as processes: killed with their broker while clients post and retry."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import requests

from barnabas.testing import EmbeddedBroker
from tests.services.ingest.processes import IngestProcess
from tests.services.ingest.running import read_until
from tests.support.brokers import BrokerProcess
from tests.support.programs import free_port
from tests.support.waiting import until

CLIENTS = 4


class Poster(threading.Thread):
    """Posts numbers with idempotency keys, each until it is accepted."""

    def __init__(self, url: str, first: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._number = first
        self.stop = threading.Event()
        self.accepted: list[int] = []
        self.replays = 0

    def run(self) -> None:
        while not self.stop.is_set():
            self._post(self._number)
            self.accepted.append(self._number)
            self._number += CLIENTS

    def _post(self, number: int) -> None:
        key = {"Idempotency-Key": f"post-{number}"}
        while True:
            try:
                answer = requests.post(self._url, json=[number, -number - 1], headers=key, timeout=30)
            except requests.RequestException:
                time.sleep(0.02)  # no server
                continue
            if answer.status_code == 200:
                self.replays += "Idempotent-Replay" in answer.headers
                return
            assert answer.status_code in (429, 503), answer.text
            time.sleep(0.02)  # sooner than Retry-After


def test_requests_with_idempotency_keys_are_written_once_despite_kills(tmp_path: Path) -> None:
    port = free_port()
    with BrokerProcess(tmp_path / "data") as broker:
        agent = IngestProcess(
            broker.bootstrap_servers,
            *(
                "http",
                "--topic",
                "events",
                "--listen",
                f"127.0.0.1:{port}",
                "--agent",
                "a",
                "--timeout",
                "5s",
            ),
        )
        agent.start()
        posters = [Poster(f"http://127.0.0.1:{port}/", first) for first in range(CLIENTS)]
        for poster in posters:
            poster.start()
        for victim in ("agent", "broker", "agent", "both"):
            _wait_for_more(posters)
            if victim in ("broker", "both"):
                broker.kill()
                broker.start()
            if victim in ("agent", "both"):
                agent.kill()
                agent.start()
        _wait_for_more(posters)
        for poster in posters:
            poster.stop.set()
        for poster in posters:
            poster.join(60)
        assert agent.stop()[0] == 0
        accepted = [number for poster in posters for number in poster.accepted]
        wanted = sorted([*accepted, *(-number - 1 for number in accepted)])
        found = read_until(broker.bootstrap_servers, "events", lambda found: len(found) >= len(wanted))
        assert sorted(int(each.value) for each in found) == wanted


def _wait_for_more(posters: list[Poster]) -> None:
    before = [len(poster.accepted) for poster in posters]

    def all_have_more() -> bool:
        return all(len(each.accepted) > count + 5 for each, count in zip(posters, before, strict=True))

    until(all_have_more, "posts are accepted")


def test_an_agent_from_a_file_takes_syslog_and_http(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    web, log = free_port(), free_port()
    (tmp_path / "agent.yml").write_text(
        f"agent: listening\nsources:\n"
        f"  - syslog: {{listen: 'tcp://127.0.0.1:{log}', topic: file.syslog, idle_timeout: 5m}}\n"
        f"  - http: {{listen: '127.0.0.1:{web}', topic: file.events, key_field: user, http_headers: [X-Id]}}\n"
    )
    agent = IngestProcess(embedded.bootstrap_servers, "run", str(tmp_path / "agent.yml"))
    agent.start()
    until(lambda: _is_up(web), "it is up")
    requests.post(
        f"http://127.0.0.1:{web}/", json={"user": 7}, headers={"X-Id": "1"}, timeout=60
    ).raise_for_status()
    with socket.create_connection(("127.0.0.1", log)) as connection:
        connection.sendall(b"<13>su: hello\n")
    (event,) = read_until(embedded.bootstrap_servers, "file.events", lambda found: bool(found))
    assert (event.key, event.headers) == (b"7", {"x-id": b"1"})
    (message,) = read_until(embedded.bootstrap_servers, "file.syslog", lambda found: bool(found))
    assert json.loads(message.value)["message"] == "hello"
    code, text = agent.stop()
    assert (code, "2 records" in text) == (0, True)


def _is_up(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=60).ok
    except requests.ConnectionError:
        return False


def test_listener_open_to_all_clients_is_rejected_unless_it_is_explicit(tmp_path: Path) -> None:
    message = _refused("http", "--topic", "t", "--listen", "0.0.0.0:0")
    assert "which other machines can reach" in message
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    assert "lacks TLS" in _refused("http", "-t", "t", "-l", "[::]:0", "--token-file", str(tokens))


def test_a_port_that_is_taken_is_named(embedded: EmbeddedBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        for command in (["http", "--listen", where], ["syslog", "--listen", f"tcp://{where}"]):
            message = _refused(*command, "--topic", "t", "-b", embedded.bootstrap_servers)
            assert f"{where}: Address already in use" in message


def test_an_agent_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    """The agent's principal writes for all clients."""
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    settings["super.users"] = "User:boss"
    users = {"boss": "secret", "guest": "secret"}
    config = tmp_path / "guest.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="guest" password="secret";\n'
    )
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=users) as broker:
        broker.create_topic("__barnabas_ingest")
        for command in (["http", "-l", "127.0.0.1:0"], ["syslog", "-l", "127.0.0.1:0"]):
            message = _refused(
                *command, "-t", "t", "-b", broker.bootstrap_servers, "--command-config", str(config)
            )
            assert "Error: TOPIC_AUTHORIZATION_FAILED" in message


def _refused(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "ingest", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2), done.stdout
    return " ".join(done.stderr.split())
