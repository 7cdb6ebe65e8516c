"""`barnabas sql` as a process."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

QUERY = 'select country, sum(amount) as total from "{topic}" group by 1 order by 1'


@pytest.fixture
def orders(cli: Cli, topic: str) -> str:
    rows = [{"country": country, "amount": number} for number, country in enumerate(["DE", "AT", "DE", "FR"])]
    cli.ok(
        "produce", topic, "-K", ":", stdin="".join(f"k{row['amount']}:{json.dumps(row)}\n" for row in rows)
    )
    return topic


def test_rows_come_as_a_table_json_csv_or_parquet(cli: Cli, orders: str) -> None:
    query = QUERY.format(topic=orders)
    expected = [{"country": "AT", "total": 1}, {"country": "DE", "total": 2}, {"country": "FR", "total": 3}]
    found = cli.ok("sql", query, "-o", "json")
    assert [json.loads(line) for line in found.out.splitlines()] == expected
    assert f"{orders}: country STRING, amount BIGINT (inferred from 4 records" in found.err
    assert cli.ok("sql", query).out.split() == ["country", "total", "AT", "1", "DE", "2", "FR", "3"]
    rows = list(csv.DictReader(io.StringIO(cli.ok("sql", query, "-o", "csv").out)))
    assert rows == [{name: str(value) for name, value in row.items()} for row in expected]


def test_parquet_is_written_to_a_file(broker: EmbeddedBroker, orders: str, tmp_path: Path) -> None:
    query = QUERY.format(topic=orders)
    command = [
        sys.executable,
        "-m",
        "barnabas.cli.main",
        "sql",
        query,
        "-o",
        "parquet",
        "-b",
        broker.bootstrap_servers,
    ]
    with (tmp_path / "rows.parquet").open("wb") as file:
        subprocess.run(command, stdout=file, check=True, timeout=60)
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_rows == 3


def test_record_columns_are_available(cli: Cli, orders: str) -> None:
    query = f"select _key, amount from \"{orders}\" where _key = 'k2'"
    assert json.loads(cli.ok("sql", query, "-o", "json").out) == {"_key": "k2", "amount": 2}


def test_a_schema_may_be_given_and_bad_values_are_counted(cli: Cli, orders: str) -> None:
    cli.ok("produce", orders, stdin="no json\n")
    found = cli.ok(
        "sql",
        f'select count(country) as n from "{orders}"',
        "--schema",
        f"{orders}=country STRING",
        "-o",
        "json",
    )
    assert json.loads(found.out) == {"n": 4}
    assert found.err == "1 value did not fit the schema: their fields are null, with the reason in _error.\n"


def test_explain_lists_the_ranges_read(cli: Cli, orders: str) -> None:
    found = cli.ok("sql", f'select sum(amount) from "{orders}" where _partition = 0', "--explain")
    last = found.out.splitlines()[-1]
    assert last.startswith(f"{orders}: ")
    assert f"{orders}-0[0, " in last
    assert f"{orders}-1[" not in last


def test_impossible_queries_are_rejected_with_a_message(cli: Cli, orders: str, tmp_path: Path) -> None:
    for query, says in (
        ("selec", "not a query over topics: syntax error"),
        ("select * from nothing", "nothing"),
        ("select * from read_csv('/etc/passwd')", "Permission Error"),
    ):
        refused = cli("sql", query)
        assert refused.code == 1
        assert says in refused.err
        assert "Traceback" not in refused.err
    refused = cli("sql", "select * from orders", "--data", str(tmp_path / "nothing"))
    assert (refused.code, "is not a folder" in refused.err) == (1, True)
