"""Rows in a real Redis, exactly once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.sinks.redis import writer as writing
from barnabas.connect.sinks.redis.commands import Part, RedisError, Reply
from barnabas.connect.sinks.redis.sink import RedisConnection, RedisSink
from barnabas.connect.sinks.redis.writer import RedisWriter
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, headers_of, produce, run_once
from tests.support.certificates import Authority
from tests.support.databases.redis import PASSWORD, RedisServer, running_redis

pytestmark = pytest.mark.timeout(300)

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "tags": "array<string>",
    "_deleted": "boolean",
    "_order": "bigint",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as running:
        yield running


@pytest.fixture(autouse=True)
def emptied(server: RedisServer) -> None:
    server.ask("FLUSHALL")


def writer(server: RedisServer, tmp_path: Path, name: str = "c", **settings: Any) -> RedisWriter:
    source_options: dict[str, Any] = {"url": server.url, "password": Secret(PASSWORD)} | settings
    if source_options.get("kind") != "stream":
        source_options = {"key": "id", "prefix": "order:"} | source_options
    no_session: Any = None
    return RedisSink(**source_options).open(
        no_session, ConnectorContext(name, tmp_path, tmp_path.as_uri()), COLUMNS
    )


def rows(spark: SparkSession, *some: tuple[object, ...]) -> Any:
    """(id, name), or all columns."""
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame([row if len(row) > 2 else (*row, None, False, 0) for row in some], schema)


def written(server: RedisServer, key: str) -> dict[str, str]:
    found = server.ask("HGETALL", key)
    assert isinstance(found, list)
    texts = [part.decode() for part in found if isinstance(part, bytes)]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def test_records_of_a_topic_become_hashes_and_tombstones_remove_them(
    spark: SparkSession,
    broker: EmbeddedBroker,
    server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, dead, servers = broker.create_topic(), broker.create_topic(), broker.bootstrap_servers
    monkeypatch.setenv("REDIS", PASSWORD)
    declared = connector(
        tmp_path,
        f"""
name: orders
from: {{topic: {{topic: {topic}, schema: "id BIGINT, name STRING, paid DOUBLE"}}}}
to: {{redis: {{url: "{server.url}/1", key: id, prefix: "order:", password: "${{env:REDIS}}"}}}}
errors: {{topic: {dead}}}
""",
        servers,
    )
    produce(
        servers,
        topic,
        [(1, {"id": 1, "name": "a", "paid": 2.5}), (2, {"id": 2, "name": "b"}), (3, {"name": "none"})],
    )
    run_once(declared, spark)
    produce(servers, topic, [(1, {"id": 1, "name": "changed"}), (1, {"id": 1, "name": "last"})])
    run_once(declared, spark)
    server.ask("SWAPDB", 0, 1)
    assert written(server, "order:1") == {"id": "1", "name": "last"}
    assert written(server, "order:2") == {"id": "2", "name": "b"}
    [letter] = consume(servers, dead)
    assert any("no key" in text for text in headers_of(letter).values())


def test_json_texts_deletions_and_times_to_live(
    spark: SparkSession, server: RedisServer, tmp_path: Path
) -> None:
    one = writer(server, tmp_path, kind="json", key=("id", "name"), ttl="1 hour")
    one.write(
        rows(spark, (1, "a", ["x"], False, 1), (2, "b", None, False, 2), (2, "b", None, True, 3)), "q", 0
    )
    found = server.ask("GET", "order:1:a")
    assert isinstance(found, bytes)
    assert json.loads(found) == {"id": 1, "name": "a", "tags": ["x"]}
    assert server.ask("EXISTS", "order:2:b") == 0
    left = server.ask("PTTL", "order:1:a")
    assert isinstance(left, int)
    assert 0 < left <= 3_600_000
    writer(server, tmp_path, "h", ttl="1 hour").write(rows(spark, (1, "a", ["x", "y"], False, 1)), "q", 0)
    assert written(server, "order:1") == {"id": "1", "name": "a", "tags": '["x","y"]'}
    assert isinstance(server.ask("PTTL", "order:1"), int)


def entries(server: RedisServer) -> list[str]:
    found: Any = server.ask("XRANGE", "orders", "-", "+")
    return [dict(zip(fields[::2], fields[1::2], strict=True))[b"id"].decode() for _, fields in found]


def test_a_batch_that_is_written_again_is_written_once(
    spark: SparkSession, server: RedisServer, tmp_path: Path
) -> None:
    some, more = rows(spark, (1, "a"), (2, "b")), rows(spark, (3, "c"))
    for _ in range(2):
        writer(server, tmp_path, kind="stream", stream="orders").write(some, "q", 7)
    one = writer(server, tmp_path, kind="stream", stream="orders")
    one.write(more, "q", 8)
    one.write(some, "q", 7)
    assert entries(server) == ["1", "2", "3"]
    one.write(some, "another query", 0)
    assert len(entries(server)) == 5


@pytest.mark.parametrize("when", ["before a command", "before EXEC", "after EXEC"])
def test_batch_is_written_once_whatever_process_fails(
    spark: SparkSession, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis itself is killed, and started again."""
    with running_redis() as server:
        some = rows(spark, (1, "a"), (2, "b"))
        ask, send = RedisConnection.ask, RedisConnection.send

        def asking(self: RedisConnection, *parts: Part) -> Reply:
            if parts[0] == "EXEC" and when == "before EXEC":
                server.kill()
            found = ask(self, *parts)
            if parts[0] == "EXEC":
                server.kill()
                raise EOFError
            return found

        def sending(self: RedisConnection, data: bytes) -> None:
            if b"XADD" in data and when == "before a command":
                server.kill()
            send(self, data)

        with monkeypatch.context() as patched:
            patched.setattr(RedisConnection, "ask", asking)
            patched.setattr(RedisConnection, "send", sending)
            with pytest.raises(PipelineError, match="it is retried and written exactly once"):
                writer(server, tmp_path, kind="stream", stream="orders").write(some, "q", 0)
        server.start()
        assert entries(server) == (["1", "2"] if when == "after EXEC" else [])
        writer(server, tmp_path, kind="stream", stream="orders").write(some, "q", 0)
        assert entries(server) == ["1", "2"]


def test_two_runs_at_once_do_not_both_write(
    spark: SparkSession, server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = rows(spark, (1, "a"))
    one = writer(server, tmp_path, kind="stream", stream="orders")
    prepare = one._commands

    def slow(rows: Any) -> Any:
        writer(server, tmp_path, kind="stream", stream="orders").write(some, "q", 0)
        return prepare(rows)

    monkeypatch.setattr(one, "_commands", slow)
    with pytest.raises(PipelineError, match="Another run of this connector"):
        one.write(some, "q", 0)
    assert entries(server) == ["1"]


def test_redis_over_tls_is_trusted_by_its_authority(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority()
    signed, ca = authority.sign("redis", "127.0.0.1"), tmp_path / "ca.pem"
    ca.write_text(authority.pem)
    (tmp_path / "redis.pem").write_text(signed.certificate_pem)
    (tmp_path / "redis.key").write_text(signed.key_pem())
    files = {"--tls-cert-file": "redis.pem", "--tls-key-file": "redis.key", "--tls-ca-cert-file": "ca.pem"}
    settings = [word for name, file in files.items() for word in (name, str(tmp_path / file))]
    with running_redis(*settings, "--tls-auth-clients", "no", url="rediss://127.0.0.1", ca=str(ca)) as server:
        writer(server, tmp_path, ca=str(ca)).write(rows(spark, (1, "a")), "q", 0)
        assert written(server, "order:1") == {"id": "1", "name": "a"}
        with pytest.raises(PipelineError, match="CERTIFICATE_VERIFY_FAILED"):
            writer(server, tmp_path).write(rows(spark, (1, "a")), "q", 1)


def test_redis_errors_are_reported(spark: SparkSession, server: RedisServer, tmp_path: Path) -> None:
    some = rows(spark, (1, "a"))
    with pytest.raises(PipelineError, match="check `user` and `password`"):
        writer(server, tmp_path, password=Secret("wrong")).write(some, "q", 0)
    with pytest.raises(PipelineError, match="check `user` and `password`"):
        writer(server, tmp_path, password=None).write(some, "q", 0)
    server.ask("SET", "orders", "no stream")
    with pytest.raises(PipelineError, match="not a stream"):
        writer(server, tmp_path, kind="stream", stream="orders").write(some, "q", 0)
    server.ask("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(PipelineError, match="OOM"):
            writer(server, tmp_path).write(some, "q", 0)
    finally:
        server.ask("CONFIG", "SET", "maxmemory", "0")
    assert server.ask("EXISTS", "order:1", f"{writing.MARKER}c") == 0
    with pytest.raises(RedisError):
        server.ask("NO-SUCH-COMMAND")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "http://host"}, "`url` of a sink `redis`"),
        ({"url": "redis://me:pw@host"}, "`user` and `password`"),
        ({"key": ()}, "either `key`"),
        ({"stream": "orders"}, "either `key`"),
        ({"kind": "stream", "stream": "s", "ttl": "1 hour"}, "`ttl` of a sink `redis`"),
        ({"ttl": "soon"}, "`ttl`"),
        ({"key": "nothing"}, "no key field nothing"),
    ],
)
def test_impossible_settings_are_reported(
    server: RedisServer, tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        writer(server, tmp_path, **settings)
