"""SQL over topics: input of DuckDB, pushed-down filters, and denied access."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer

import barnabas
from barnabas.tables.errors import TableError
from barnabas.tables.sql import describe, query, topics_of
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until
from tests.tables.conftest import DEADLINE, NOW, SCHEMA, order

Open = Callable[[str], Table]


@pytest.fixture(params=["sockets", "folder"])
def open_table(request: pytest.FixtureRequest, broker: EmbeddedBroker, orders: str) -> Open:
    place: dict[str, Any] = {"bootstrap": broker.bootstrap_servers}
    sockets = barnabas.table(orders, schema=SCHEMA, **place)
    if request.param == "folder":
        place = {"data": str(broker.data_dir)}
        expected = sockets.to_arrow(["_offset"]).num_rows
        folder = barnabas.table(orders, schema=SCHEMA, **place)
        until(lambda: folder.to_arrow(["_offset"]).num_rows == expected, "checkpoint")
    return lambda topic: barnabas.table(topic, schema=SCHEMA, **place)


def test_duckdb_and_polars_agree(open_table: Open) -> None:
    text = """
        select country, sum(amount) as total, count(*) as number, max(id) as last
        from orders where amount > 10 group by 1 order by 1
    """
    found = query(text, open_table).rows.to_pylist()
    frame = open_table("orders").to_polars().lazy().filter(polars.col("amount") > 10)
    expected = (
        frame.group_by("country")
        .agg(total=polars.col("amount").sum(), number=polars.len(), last=polars.col("id").max())
        .sort("country")
        .collect()
    )
    assert found == expected.rows(named=True)
    assert [row["country"] for row in found] == ["AT", "DE", "FR"]


def test_only_the_columns_of_a_query_are_decoded(open_table: Open) -> None:
    answer = query("select count(*) as n, max(_offset) as o from orders", open_table)
    (read,) = answer.reads["orders"]
    assert set(read.columns) <= {"_offset", "id"}
    assert "amount" not in read.columns
    (row,) = answer.rows.to_pylist()
    assert row["n"] == read.records == open_table("orders").to_arrow(["_offset"]).num_rows


@pytest.mark.parametrize(
    ("condition", "limit"),
    [
        ("_partition = 1", 160),
        ("_partition = 0 and _offset < 20", 25),
        ("_offset between 100 and 110", 40),
        ("(_partition = 1 and _offset >= 150) or _offset in (3, 4)", 40),
        ("_timestamp >= to_timestamp({late})", 320),  # over sockets markers, which are newer, are in the way
        ("_offset < 0", 0),
    ],
)
def test_ranges_that_a_filter_excludes_are_not_read(open_table: Open, condition: str, limit: int) -> None:
    condition = condition.format(late=NOW // 1000 + 200)
    rows = query("select _partition, _offset, _timestamp from orders", open_table).rows
    with duckdb.connect(":memory:") as connection:
        expected = connection.from_arrow(rows).filter(condition).count("*").fetchall()
    answer = query(f"select count(*) as n from orders where {condition}", open_table)
    assert answer.rows.to_pylist() == [{"n": expected[0][0]}]
    read = sum(wanted.size for read in answer.reads["orders"] for wanted in read.ranges)
    assert read <= limit


def test_query_costs_are_explained(open_table: Open) -> None:
    answer = query("select sum(amount) from orders where _partition = 1", open_table, explain=True)
    assert "amount" in answer.plan
    (read,) = answer.reads["orders"]
    assert describe("orders", read).startswith("orders: 160 offsets in orders-1[0, 160), ")


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from read_text('/etc/passwd')",
        "copy (select 1) to '/tmp/barnabas-must-not-be-there.csv'",
        "install httpfs",
        "attach '/tmp/barnabas-must-not-be-there.db'",
        "set enable_external_access = true",
        "select * from read_parquet('https://127.0.0.1:1/x.parquet')",
    ],
)
def test_sql_sees_topics_only(open_table: Open, text: str) -> None:
    def refuse(topic: str) -> Table:
        raise TableError(f"there is no topic {topic}")

    with pytest.raises(TableError):
        query(text, refuse)
    assert not list(Path("/tmp").glob("barnabas-must-not-be-there*"))


def test_variables_of_the_caller_are_no_tables(open_table: Open) -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(TableError):
        query("select * from secret", lambda topic: barnabas.table(topic, data="/nowhere"))
    assert secret.num_rows == 1


def test_topics_are_found_in_the_query() -> None:
    text = 'with x as (select * from a) select * from x join "b-c.d" using (id)'
    assert topics_of(text) == ["a", "b-c.d"]
    for wrong, says in (
        ("selec 1", "syntax error"),
        ("select 1; select 2", "one query"),
        ("select * from shop.orders", 'quote the topic, "shop.orders"'),
    ):
        with pytest.raises(TableError, match=says):
            topics_of(wrong)


def test_no_thread_is_left_behind(open_table: Open) -> None:
    table = open_table("orders")
    dataset = table.dataset(["id", "_offset"])
    reader = dataset.scanner(columns=["id"], filter=pc.field("_offset") > 3).to_reader()
    reader.read_next_batch()
    dataset.close()
    query("select id from orders limit 1", open_table)
    assert not [thread for thread in threading.enumerate() if thread.name == "reads a table"]


FAILING = """
import sys
import barnabas
from barnabas.tables.sql import query
try:
    query("select sum(id) from orders", lambda topic: barnabas.table(topic, data=sys.argv[1], schema="id BIGINT"))
except Exception as error:
    print("refused:", error)
import pyarrow.dataset
scanner = barnabas.table("orders", data=sys.argv[1], schema="id BIGINT").dataset().scanner()
reader = scanner.to_reader()  # and is left as it is
try:
    reader.read_next_batch()
except Exception as error:
    print("again:", type(error).__name__)
"""


def test_process_ends_whatever_the_state_of_its_scans(tmp_path: Path, broker: EmbeddedBroker) -> None:
    """Arrow waits indefinitely for a failed generator unless its thread is ended."""
    topic = broker.create_topic(partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 200})
    for number in range(500):
        producer.produce(topic, order(number))
    producer.flush(DEADLINE)
    segment = broker.data_dir / f"{topic}-0" / f"{0:020d}.log"
    (tmp_path / "orders-0").mkdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "orders-0" / segment.name).write_bytes(data)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 500\n")
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path)], capture_output=True, text=True, timeout=DEADLINE
    )
    assert ended.returncode == 0, ended.stderr
    assert f"{segment.name}, byte" in ended.stdout
