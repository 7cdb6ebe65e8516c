"""Parsing of NAME.yml, without Spark."""

import logging
from pathlib import Path

import pytest

from barnabas.connect.declaration import Connector, Errors, read_connector
from barnabas.connect.secrets import RedactingFilter, Redaction, without_password
from barnabas.connect.sinks.jdbc import JdbcSink
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError

ORDERS = """\
name: orders
from:
  topic:
    topic: shop.orders
    schema: id BIGINT, amount DOUBLE
transforms:
  - filter: amount > 0
to:
  topic: {topic: orders.paid, key: id}
errors: {topic: orders.dead-letters, tolerate: 100 per hour}
"""


def read(folder: Path, text: str = ORDERS) -> Connector:
    (folder / "orders.yml").write_text(text)
    return read_connector(folder / "orders.yml")


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(PipelineError) as caught:
        read(folder, text)
    return str(caught.value)


def test_a_connector_is_read_with_its_ends_and_transforms(tmp_path: Path) -> None:
    connector = read(tmp_path)
    assert connector.source.location() == "topic shop.orders"
    assert connector.sink.location() == "topic orders.paid"
    assert [one.kind for one in connector.transforms] == ["filter"]
    assert connector.storage == (tmp_path / ".barnabas" / "connect" / "orders").as_uri()
    assert connector.errors is not None
    assert connector.errors.allowed() == (100, 3600.0)


@pytest.mark.parametrize(
    ("wrong", "instead", "line", "text"),
    [
        ("shop.orders\n    schema:", "shop.orders\n    shema:", 5, "unknown key `shema` in this section; did you mean"),
        ("from:\n  topic:", "from:\n  topik:", 3, "unknown key `topik` in `from`; did you mean `topic`?"),
        ("- filter:", "- filtre:", 7, "unknown key `filtre` in `transforms`; did you mean `filter`?"),
        ("tolerate: 100 per hour", "tolerate: often", 10, "(example: `100 per hour`)"),
        ("errors: {topic", "erors: {topic", 10, "did you mean `errors`?"),
        ("key: id", "format: xml", 9, "`format`: Invalid enum value 'xml'"),
        ("name: orders", "name: orders/1", 1, "not a valid name: 'orders/1'"),
        ("- filter: amount > 0", "- mask: {fields: [a], keep_last: -1}", 7, "0 or more"),
        ("- filter: amount > 0", "- mask: {felds: [a]}", 7, "did you mean `fields`?"),
        ("to:\n", "trigger: soon\nto:\n", 8, "not a valid duration"),
        ("to:\n", "name: again\nto:\n", 8, "duplicate key `name`"),
    ],
)  # fmt: skip
def test_errors_are_reported_with_their_line(
    tmp_path: Path, wrong: str, instead: str, line: int, text: str
) -> None:
    assert wrong in ORDERS
    message = complaint(tmp_path, ORDERS.replace(wrong, instead, 1))
    assert f"orders.yml, line {line}: " in message
    assert text in message


def test_missing_or_invalid_yaml_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read: No such file"):
        read_connector(tmp_path / "nothing.yml")
    assert "line 2: invalid YAML" in complaint(tmp_path, "name: [a\nfrom: b")
    assert "needs at least `name, from, to`" in complaint(tmp_path, "")
    assert "needs `name`, `from` and `to`" in complaint(tmp_path, "[a]")


def test_aliases_and_large_files_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    laughs = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]
    assert "orders.yml, line 2: aliases (*name) are not supported" in complaint(tmp_path, "\n".join(laughs))
    assert "the maximum is 1048576" in complaint(tmp_path, "#" * 2_000_000)


def test_a_secret_is_refused_in_a_field_that_is_shown(tmp_path: Path) -> None:
    message = complaint(tmp_path, ORDERS.replace("topic: shop.orders", "topic: '${env:TOPIC}'"))
    assert "line 4: ${env:TOPIC} is in a field that appears in logs" in message


def test_secrets_are_resolved_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG", "hunter22")
    (tmp_path / "more.properties").write_text("url=jdbc:postgresql://db/shop?password=topsecret\n")
    url = f"${{file:{tmp_path}/more.properties:url}}"
    to = f"to:\n  jdbc:\n    url: '{url}'\n    table: t\n    password: '${{env:PG}}'\n"
    text = ORDERS.replace("to:\n  topic: {topic: orders.paid, key: id}\n", to)
    connector = read(tmp_path, text)
    assert isinstance(connector.sink, JdbcSink)
    assert connector.sink.password == Secret("hunter22")
    assert "password=topsecret" in connector.sink.url.text
    shown = repr(connector) + connector.sink.location()
    assert "hunter22" not in shown
    assert "topsecret" not in shown
    assert connector.redaction.clean("hunter22 and topsecret") == "[hidden] and [hidden]"
    monkeypatch.delenv("PG")
    assert "line 12: `password` names the environment variable PG, which is not set" in complaint(
        tmp_path, text
    )


def test_redaction_removes_secrets_from_forwarded_text() -> None:
    redaction = Redaction([Secret("hunter22"), Secret("postgresql://me:topsecret@db/shop")])
    assert redaction.clean("FATAL: hunter22 at postgresql://me:topsecret@db") == (
        "FATAL: [hidden] at postgresql://me:[hidden]@db"
    )
    assert (
        without_password("jdbc:x://h/d?user=a&password=b&ssl=1")
        == "jdbc:x://h/d?user=a&password=[hidden]&ssl=1"
    )
    record = logging.LogRecord("x", logging.ERROR, "", 0, "no %s", ("hunter22",), None)
    RedactingFilter(redaction).filter(record)
    assert record.getMessage() == "no [hidden]"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("5 per 10 minutes", (5, 600.0)), ("0 per day", (0, 86_400.0)), ("3 an hour", (3, 3600.0))],
)
def test_rates_are_read_as_people_write_them(text: str, allowed: tuple[int, float]) -> None:
    assert Errors(topic="x", tolerate=text).allowed() == allowed
