"""Regression tests of bypasses of the console's login, roles and masks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client.schemas import RegistryAccount
from barnabas.client.schemas.client import Schema, SchemaClient
from barnabas.services.console.access.authenticators import MAX, Attempts, LoginGate
from barnabas.services.console.access.model import AccessSettings, Grant, LoginKind, LoginSettings, Role
from barnabas.services.console.access.passwords import hash_of
from barnabas.services.console.errors import TooManyError, UnauthorizedError
from barnabas.services.console.scanning.model import HIDDEN
from barnabas.services.console.scanning.worker.masking import hide
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import CHEAP, PASSWORD, by_token, log_in, logged_in, with_roles
from tests.services.console.web import CLUSTER, RunningConsole, running_console

GUESSES = 40


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """`mia` may read and write topics that begin with mine, and nothing else."""
    base = with_roles()
    hashes = {**base.login.users, "mia": hash_of(PASSWORD, CHEAP)}
    access = AccessSettings(
        LoginSettings(LoginKind.SERVICE, hashes),
        (*base.grants, Grant(Role.DEVELOPER, ("mia",), names=("mine*",))),
        tokens=base.tokens,
    )
    clusters = (
        ClusterSettings(CLUSTER, broker.bootstrap_servers, registry=RegistryAccount.at(broker.registry_url)),
    )
    folder = tmp_path_factory.mktemp("console")
    with running_console(broker.bootstrap_servers, folder, access=access, clusters=clusters) as running:
        yield running


def test_guesses_at_the_same_time_are_no_more_than_the_limit(console: RunningConsole) -> None:
    gate = console.server.gate
    assert isinstance(gate, LoginGate)
    gate.attempts = Attempts()

    def guess(number: int) -> int:
        with console.web() as web:
            return log_in(web, "viewer", f"guess-{number}").status

    with ThreadPoolExecutor(GUESSES) as pool:
        answers = list(pool.map(guess, range(GUESSES)))
    assert sorted(set(answers)) == [401, 429]
    assert answers.count(401) == MAX["both"]
    gate.attempts = Attempts()


def test_many_good_logins_at_the_same_time_are_only_delayed() -> None:
    async def scenario() -> None:
        attempts = Attempts()

        async def good() -> None:
            async with attempts.attempt("alice", "10.0.0.1"):
                await asyncio.sleep(0)

        await asyncio.gather(*(good() for _ in range(5 * MAX["both"])))
        for _ in range(MAX["both"]):
            with pytest.raises(UnauthorizedError):
                async with attempts.attempt("alice", "10.0.0.1"):
                    raise UnauthorizedError("no")
        with pytest.raises(TooManyError):
            await good()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_link_cannot_inject_text_into_the_console(console: RunningConsole, broker: EmbeddedBroker) -> None:
    broker.create_topic("mine-said")
    with logged_in(console, "admin") as web:
        assert "Call this number" not in web.get("/topics", message="Call this number").text
        done = web.post("/topics/mine-said/grow", partitions="2", confirm="mine-said", seen="1")
        assert done.status == 303, done.text
        shown = web.ask("GET", done.headers["location"]).text
        assert 'class="toast" role="status"' in shown
        forged = done.headers["location"].replace("message=", "message=Call+this+number")
        assert "Call this number" not in web.ask("GET", forged).text


@pytest.mark.parametrize(
    "name", ["ssl.keystore.location", "sasl.jaas.config", "listener.name.plaintext.ssl.truststore.location"]
)
def test_settings_of_tls_and_sasl_need_the_role_admin(console: RunningConsole, name: str) -> None:
    for path in ("default", "1"):
        with by_token(console, "operator") as operator:
            answer = operator.change(f"/brokers/{path}/config", changes=f"{name}=x")
            assert (answer.status, "needs the role admin" in answer.text) == (403, True)
            preview = operator.api(f"/brokers/{path}/config", changes=f"{name}=x")
            assert preview.status == 403
    with by_token(console, "admin") as admin:
        assert admin.api("/brokers/1/config", changes=f"{name}=x").status != 403


def test_other_settings_of_brokers_are_for_operators(console: RunningConsole) -> None:
    with by_token(console, "operator") as operator:
        assert operator.change("/brokers/default/config", changes="log.retention.ms=1000000").status == 200


SECRET = json.dumps({"type": "record", "name": "Secret", "fields": [{"name": "salary", "type": "long"}]})


@pytest.fixture(scope="module")
def schema_id(broker: EmbeddedBroker) -> int:
    for topic in ("mine", "payroll"):
        broker.create_topic(topic, partitions=1)
    with SchemaClient(broker.registry_url) as client:
        client.register("mine-value", Schema("AVRO", '"long"'))
        return client.register("payroll-value", Schema("AVRO", SECRET))


def test_a_schema_of_another_topic_is_not_shown_for_a_record_with_its_id(
    console: RunningConsole, broker: EmbeddedBroker, schema_id: int
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for topic in ("mine", "payroll"):
        producer.produce(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x02")
    producer.produce("mine", b"\0" + (schema_id - 1).to_bytes(4, "big") + b"\x54")
    assert producer.flush(60) == 0
    with logged_in(console, "mia") as mia, logged_in(console, "admin") as admin:
        stolen = mia.api("/topics/mine/records/0/0")
        assert stolen.status == 200
        assert "salary" not in stolen.text
        assert "may not read schema" in stolen.text
        found = mia.api("/topics/mine/records", wait="true", where="record.value.salary == 1")
        assert "salary" not in json.dumps(found.json["rows"])
        assert mia.api("/topics/mine/records/0/1").json["record"]["value"]["text"] == "42"
        for topic in ("mine", "payroll"):
            assert "salary" in admin.api(f"/topics/{topic}/records/0/0").text


@pytest.mark.parametrize(
    ("path", "value", "hidden"),
    [
        ("c.no", {"c": "41"}, {"c": HIDDEN}),
        ("c.no", {"c": ["41", {"no": 1, "type": "x"}]}, {"c": [HIDDEN, {"no": HIDDEN, "type": "x"}]}),
        ("c.no", {"c.no": "41", "a": 1}, {"c.no": HIDDEN, "a": 1}),
        ("c.no", {"payload": {"c": {"no": 1}}, "a": 1}, {"payload": {"c": {"no": HIDDEN}}, "a": 1}),
        ("c.no", {"c": {"new": {"no": 1}}}, {"c": {"new": {"no": HIDDEN}}}),
        ("c.no", ["41", 7, {"c": {"no": 1}}], [HIDDEN, HIDDEN, {"c": {"no": HIDDEN}}]),
        ("c.no", {"c": {"no": 1}, "phone": {"no": 2}}, {"c": {"no": HIDDEN}, "phone": {"no": 2}}),
        ("c.no", {"c": None, "a": 1}, {"c": None, "a": 1}),
        ("c.no", {"a": 1}, {"a": 1}),
        ("*.email", {"email": "a@b"}, {"email": HIDDEN}),
        ("**.iban", {"a": {"iban": 1, "b": 2}}, {"a": {"iban": HIDDEN, "b": 2}}),
    ],
)  # fmt: skip
def test_a_value_of_another_shape_does_not_escape_its_mask(path: str, value: Any, hidden: Any) -> None:
    assert hide(value, (tuple(path.split(".")),)) == hidden
