"""`serve --console`: the console uses the login of its broker and finds the registry next to it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import confluent_kafka

from tests.services.console.access.people import logged_in_at
from tests.services.console.web import Web
from tests.support.brokers import BrokerProcess
from tests.support.programs import free_port
from tests.support.registry import Rest
from tests.support.waiting import eventually

READY = "The console is ready on"
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}


def test_with_users_the_console_asks_for_their_login_and_shows_records_by_their_schema(
    tmp_path: Path,
) -> None:
    console, registry = free_port(), free_port()
    options = ("--users", "--console", f"127.0.0.1:{console}", "--registry", f"127.0.0.1:{registry}")
    broker = BrokerProcess(tmp_path, options=options)
    with broker:
        broker.until_it_says(READY)
        broker.until_it_says("The schema registry is ready on")
        password = re.findall(r"with the password (\S+)", "".join(broker.lines))[0]
        with Rest(f"http://127.0.0.1:{registry}", f"admin:{password}") as admin:
            schema_id = admin.register("orders-value", json.dumps(SCHEMA)).body["id"]
        produce(broker.bootstrap_servers, password, b"\0" + schema_id.to_bytes(4, "big") + b"\x0e")

        with Web(f"http://127.0.0.1:{console}") as web:
            page = web.get("/topics")
            assert (page.status, page.headers["location"]) == (303, "/login?next=%2Fc%2Fdefault%2Ftopics")
            assert web.api("/topics").status == web.api("/access/users").status == 401
            web.headers["Cookie"] = logged_in_at(web, "admin", password)
            names = eventually(
                lambda: [row["name"] for row in web.api("/topics").json["topics"]], lambda found: bool(found)
            )
            assert names == ["orders"]
            shown = web.api("/topics/orders/records", wait="true").json["rows"]
            assert json.loads(shown[0]["value"]["text"]) == {"id": 7}
            subjects = web.api("/schemas").json["subjects"]  # from a registry with authentication
            assert [each["subject"] for each in subjects] == ["orders-value"]
        with Web(f"http://127.0.0.1:{console}") as web:
            assert web.ask("POST", "/login", b"name=admin&password=wrong").status >= 400


def produce(bootstrap: str, password: str, value: bytes) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": password,
        }
    )
    producer.produce("orders", value)
    assert producer.flush(60) == 0
