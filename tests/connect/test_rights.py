"""A connector needs exactly the documented rights."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from barnabas.connect.declaration import Connector, read_connector
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import run_once
from tests.support.cli import Cli
from tests.support.programs import PROJECT_ROOT

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
USERS = {"admin": "admin's", "connect": "connect's", "nobody": "nobody's"}
COPY = """
name: copy
from: {topic: {topic: shop.orders, schema: id BIGINT}}
to: {topic: {topic: orders.dead-letters}}
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS, security="SASL_PLAINTEXT", users=USERS) as broker:
        broker.create_topic("shop.orders")
        producer = Producer(broker.clients_of("admin").confluent)
        producer.produce("shop.orders", b'{"id": 1}')
        assert producer.flush(60) == 0
        yield broker


def as_user(broker: EmbeddedBroker, user: str, folder: Path) -> list[str]:
    file = folder / f"{user}.properties"
    lines = [
        f"{name}={value}"
        for name, value in broker.clients_of(user).java.items()
        if name != "bootstrap.servers"
    ]
    file.write_text("\n".join(lines))
    return ["--command-config", str(file)]


def declared(broker: EmbeddedBroker, user: str, folder: Path) -> Connector:
    (folder / "copy.yml").write_text(COPY)
    settings = {f"barnabas.{name}": value for name, value in broker.clients_of(user).java.items()}
    return read_connector(folder / "copy.yml", settings)


def allowed_by_the_page() -> list[list[str]]:
    page = (PROJECT_ROOT / "docs" / "connect.md").read_text().splitlines()
    return [shlex.split(line)[1:] for line in page if line.startswith("    barnabas acls allow User:connect")]


def test_the_rights_of_the_page_are_those_that_are_needed(
    spark: SparkSession, guarded: EmbeddedBroker, tmp_path: Path
) -> None:
    cli = Cli(guarded.bootstrap_servers)
    with pytest.raises(PipelineError, match=r"shop\.orders"):
        run_once(declared(guarded, "connect", tmp_path), spark)
    commands = allowed_by_the_page()
    assert len(commands) == 6
    for command in commands:
        cli.ok(*command, *as_user(guarded, "admin", tmp_path))
    assert run_once(declared(guarded, "connect", tmp_path), spark).flows["rows"].rows == 1
    cli.ok("connect", "status", *as_user(guarded, "admin", tmp_path))
    refused = cli("connect", "status", "--forget", "copy", *as_user(guarded, "nobody", tmp_path))
    assert refused.code == 1
    assert "__barnabas_status" in refused.err + refused.out
