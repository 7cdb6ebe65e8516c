"""The stream of changes, against a real PostgreSQL, killed at every step."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from barnabas.connect.sources.postgres.reader import BYTES, PostgresSettings, arrow_batches, read_changes
from barnabas.connect.sources.postgres.slot import parse_lsn
from barnabas.spark.errors import SourceError
from tests.connect.sources.postgres.micro_batches import Engine, Nursery, delivered, settings
from tests.connect.sources.postgres.workload import TABLES, Workload, folded, stored, witnessed
from tests.support.databases.postgres import PostgresServer

Connection = psycopg.Connection[tuple[Any, ...]]
KILLED_AT = [*range(1, 16), *(2, 9, 4, 7, 5, 3, 8, 6), *range(1, 12)]
"""Every step of a first start, then of starts in any state."""


@pytest.fixture
def shop(postgres: PostgresServer, database: str) -> Any:
    with postgres.connect(database) as connection:
        for statement in TABLES.strip().split(";\n"):
            connection.execute(statement)
        yield connection


@pytest.fixture
def chosen(postgres: PostgresServer, database: str, shop: Connection) -> PostgresSettings:
    return settings(postgres.url(database))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    running = Nursery()
    yield running
    running.close()


def check(folder: Path, shop: Connection) -> None:
    rows = delivered(folder)
    assert folded(rows) == stored(shop)
    changes = [row for row in rows if row["op"] != "r"]
    places = [(row["lsn"], row["seq"]) for row in changes]
    assert places == sorted(set(places)), "a change came twice, or late"
    events = [
        (row["op"], row["table"], None if row["key"] is None else json.loads(row["key"])) for row in changes
    ]
    expected = witnessed(shop, 0)
    assert events == expected[len(expected) - len(events) :], "a change is missing"


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(2, 8))]
)
def test_no_change_is_lost_or_doubled_when_the_reader_is_killed_at_every_step(
    tmp_path: Path, shop: Connection, chosen: PostgresSettings, nursery: Nursery, seed: int
) -> None:
    work = Workload(shop, seed)
    work.some(8)
    for step in KILLED_AT:
        nursery.run(tmp_path, chosen.url, step)
        work.some(3)
    assert not nursery.run(tmp_path, chosen.url, 0)
    check(tmp_path, shop)


def test_stream_continues_exactly_at_the_end_of_the_first_snapshot(
    tmp_path: Path, shop: Connection, chosen: PostgresSettings
) -> None:
    work = Workload(shop, 3)
    work.some(20)
    left = iter(range(30))

    def meanwhile(step: str) -> None:
        work.some(1 if next(left, None) is not None else 0)

    Engine(tmp_path, chosen, meanwhile).run()
    rows = delivered(tmp_path)
    (point,) = {row["lsn"] for row in rows if row["op"] == "r"}
    events = [row for row in rows if row["op"] != "r"]
    assert len(events) == len(witnessed(shop, point)) > 0
    check(tmp_path, shop)


def test_a_large_transaction_comes_in_batches_of_bounded_size(
    tmp_path: Path, shop: Connection, chosen: PostgresSettings
) -> None:
    Engine(tmp_path, chosen).run()
    start = slot_position(shop)
    shop.execute("INSERT INTO orders (id, note) SELECT g, repeat('x', 2000) FROM generate_series(1, 30000) g")
    end = int(shop.execute("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn").fetchone()[0])  # type: ignore[index]
    sizes = [batch.nbytes for batch in arrow_batches(read_changes(chosen, start, end))]
    assert len(sizes) > 5
    assert max(sizes) < 2 * BYTES


def test_idle_table_lets_the_server_discard_its_log(
    tmp_path: Path, shop: Connection, chosen: PostgresSettings
) -> None:
    engine = Engine(tmp_path, chosen)
    engine.run()
    for _ in range(3):
        shop.execute("INSERT INTO other SELECT g FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING")
        shop.execute("TRUNCATE other")
        before = slot_position(shop)
        engine.run()
    assert slot_position(shop) >= before
    assert delivered(tmp_path) == []
    held = shop.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) FROM pg_replication_slots WHERE "
        "slot_name = 'shop'"
    ).fetchone()
    assert held is not None
    assert held[0] < 1 << 20


def slot_position(shop: Connection) -> int:
    row = shop.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'shop'"
    ).fetchone()
    assert row is not None
    return parse_lsn(row[0])


class TestStops:
    """Conditions that would silently lose changes stop the connector with a remedy."""

    @pytest.fixture
    def begun(self, tmp_path: Path, shop: Connection, chosen: PostgresSettings) -> Path:
        Engine(tmp_path, chosen).run()
        shop.execute("INSERT INTO orders (id) VALUES (1)")
        Engine(tmp_path, chosen).run()
        shop.execute("INSERT INTO orders (id) VALUES (2)")
        return tmp_path

    def test_when_the_slot_was_dropped(self, begun: Path, shop: Connection, chosen: PostgresSettings) -> None:
        shop.execute("SELECT pg_drop_replication_slot('shop')")
        with pytest.raises(SourceError, match=r"slot shop no longer exists.*Start over"):
            Engine(begun, chosen).run()

    def test_when_the_slot_was_made_again(
        self, begun: Path, shop: Connection, chosen: PostgresSettings
    ) -> None:
        shop.execute("SELECT pg_drop_replication_slot('shop')")
        shop.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        with pytest.raises(SourceError, match=r"ahead of this connector.*created again.*Start over"):
            Engine(begun, chosen).run()

    def test_when_another_reader_has_moved_the_slot(
        self, begun: Path, shop: Connection, chosen: PostgresSettings
    ) -> None:
        shop.execute("SELECT pg_replication_slot_advance('shop', pg_current_wal_lsn())")
        with pytest.raises(SourceError, match=r"ahead of this connector.*two connectors share"):
            Engine(begun, chosen).run()

    def test_when_a_table_is_not_published(
        self, begun: Path, shop: Connection, chosen: PostgresSettings
    ) -> None:
        shop.execute("ALTER PUBLICATION shop DROP TABLE lines")
        with pytest.raises(
            SourceError, match=r"does not have public\.lines.*ALTER PUBLICATION shop ADD TABLE"
        ):
            Engine(begun, chosen).run()

    def test_when_it_is_another_server(self, begun: Path, chosen: PostgresSettings) -> None:
        for note in (begun / "offsets").glob("*"):
            note.write_text(note.read_text().replace('"system": "', '"system": "9'))
        with pytest.raises(SourceError, match="another server"):
            Engine(begun, chosen).run()

    def test_server_set_back_in_time(self, begun: Path, chosen: PostgresSettings) -> None:
        for note in (begun / "offsets").glob("*"):
            note.write_text(note.read_text().replace('"lsn": "0/', '"lsn": "F/'))
        with pytest.raises(SourceError, match="restored from a backup"):
            Engine(begun, chosen).run()
