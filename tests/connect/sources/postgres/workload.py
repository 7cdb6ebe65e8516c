"""Random shop transactions from a seed, and their expected changes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import psycopg

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12,2), note text, tags text[], placed
timestamptz); CREATE TABLE lines (order_id int, line int, what jsonb, PRIMARY KEY (order_id, line));
ALTER TABLE lines REPLICA IDENTITY FULL;
CREATE TABLE other (id int PRIMARY KEY);
CREATE PUBLICATION shop FOR TABLE orders, lines;
SELECT pg_create_logical_replication_slot('witness', 'test_decoding');
"""
ADVANCES = re.compile(r"table public\.(orders|lines): (INSERT|UPDATE|DELETE): (.*)", re.DOTALL)
KEY = {
    "orders": re.compile(r"id\[integer\]:(-?\d+)"),
    "lines": re.compile(r"order_id\[integer\]:(-?\d+) line\[integer\]:(-?\d+)"),
}
NAMES = {"orders": ("id",), "lines": ("order_id", "line")}


class Workload:
    def __init__(self, connection: psycopg.Connection[Any], seed: int) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        self._next = 1
        self._has_new_column = False

    def some(self, transactions: int) -> None:
        for _ in range(transactions):
            self._transaction()

    def _transaction(self) -> None:
        kind = self._random.random()
        try:
            with self._connection.transaction():
                for _ in range(self._random.choice((1, 1, 2, 5, 12))):
                    self._change()
                if kind < 0.1:
                    raise psycopg.Rollback
                if kind < 0.2:
                    with self._connection.transaction(force_rollback=True):
                        self._change()
        except psycopg.Rollback:
            pass
        if kind > 0.97:
            self._rare(kind)

    def _rare(self, kind: float) -> None:
        if kind > 0.985 and not self._has_new_column:
            self._connection.execute("ALTER TABLE orders ADD COLUMN rating real DEFAULT 0.5")
            self._has_new_column = True
        else:
            self._connection.execute("TRUNCATE lines")

    def _change(self) -> None:
        change = self._random.choice(
            (self._insert, self._insert, self._line, self._update, self._delete, self._move)
        )
        change()

    def _insert(self) -> None:
        self._next += 1
        large = "".join(self._random.choices("abcdefgh", k=9000)) if self._random.random() < 0.1 else "brief"
        customer = f'c{self._random.randrange(9)} "quoted" \\ {{ü}}'
        row = (self._next, customer, self._random.randrange(10**9) / 100, large)
        self._connection.execute(
            "INSERT INTO orders (id, customer, amount, note, tags, placed) VALUES (%s, %s, %s, %s, %s, %s)",
            (*row, ["a b", None, 'q"'], "2026-03-01 12:00:00.123456+01"),
        )

    def _line(self) -> None:
        self._connection.execute(
            "INSERT INTO lines VALUES (%s, %s, %s) ON CONFLICT (order_id, line) DO UPDATE SET what = EXCLUDED.what",
            (
                self._some_id(),
                self._random.randrange(3),
                json.dumps({"n": self._random.random(), "text": "ß\n"}),
            ),
        )
        self._connection.execute("INSERT INTO other VALUES (%s) ON CONFLICT DO NOTHING", (self._next,))

    def _update(self) -> None:
        self._connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (self._some_id(),))

    def _delete(self) -> None:
        table, name = self._random.choice((("orders", "id"), ("lines", "order_id")))
        self._connection.execute(f"DELETE FROM {table} WHERE {name} = %s", (self._some_id(),))

    def _move(self) -> None:
        self._next += 1
        self._connection.execute("UPDATE orders SET id = %s WHERE id = %s", (self._next, self._some_id()))

    def _some_id(self) -> int:
        return self._random.randrange(max(1, self._next - 30), self._next + 1)


def witnessed(
    connection: psycopg.Connection[Any], after: int
) -> list[tuple[str, str, dict[str, int] | None]]:
    """(op, table, key) of every change of transactions committed after a position, in PostgreSQL's text format."""
    rows = connection.execute(
        "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_peek_changes('witness', NULL, NULL)"
    ).fetchall()
    changes: list[tuple[str, str, dict[str, int] | None]] = []
    open_ones: list[tuple[str, str, dict[str, int] | None]] = []
    for lsn, text in rows:
        if text.startswith("BEGIN"):
            open_ones = []
        elif text.startswith("COMMIT"):
            changes += open_ones if int(lsn) > after else []
        elif text.startswith("table "):
            open_ones += _parse(text)
    return changes


def _parse(text: str) -> list[tuple[str, str, dict[str, int] | None]]:
    if ": TRUNCATE:" in text:
        names = text.removeprefix("table ").split(": TRUNCATE")[0].split(", ")
        return [("t", name.removeprefix("public."), None) for name in names]
    found = ADVANCES.match(text)
    if found is None:
        return []  # a table that is not read
    table, kind, rest = found.groups()
    if kind == "UPDATE" and rest.startswith("old-key: "):
        old, new = rest.removeprefix("old-key: ").split(" new-tuple: ", 1)
        if _key(table, old) != _key(table, new):
            return [("d", table, _key(table, old)), ("c", table, _key(table, new))]
        return [("u", table, _key(table, new))]
    return [({"INSERT": "c", "UPDATE": "u", "DELETE": "d"}[kind], table, _key(table, rest))]


def _key(table: str, text: str) -> dict[str, int]:
    found = KEY[table].search(text)
    assert found is not None, text
    return dict(zip(NAMES[table], map(int, found.groups()), strict=True))


def folded(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """The tables as the last change of each key leaves them: table -> key -> row."""
    tables: dict[str, dict[str, dict[str, Any]]] = {"orders": {}, "lines": {}}
    deleted: dict[str, Any] = {}  # from the previous change: a row with a changed key keeps large values
    for row in rows:
        table = tables[row["table"]]
        if row["op"] == "t":
            table.clear()
        elif row["op"] == "d":
            deleted = table.pop(row["key"], {})
        else:
            after = json.loads(row["after"])
            kept = table.get(row["key"], deleted)
            table[row["key"]] = {name: kept.get(name) for name in row["unchanged"] or ()} | after
    for order in tables["orders"].values():
        order.setdefault("rating", 0.5)  # a new column does not change existing rows
    return tables


def stored(connection: psycopg.Connection[Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """The current tables in the same form: PostgreSQL's JSON, except for decimal numbers."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    connection.execute("SET TimeZone = 'UTC'")
    for name, columns in NAMES.items():
        found = connection.execute(f"SELECT to_jsonb(t) FROM {name} t").fetchall()
        by_key = {}
        for (row,) in found:
            key = json.dumps({column: row[column] for column in columns}, separators=(",", ":"))
            by_key[key] = _as_ours(row)
        tables[name] = by_key
    return tables


def _as_ours(row: dict[str, Any]) -> dict[str, Any]:
    known = dict(row)
    if "amount" in row:
        known["amount"] = f"{row['amount']:.2f}"
        known.setdefault("rating", 0.5)
        known["placed"] = row["placed"].replace("+00:00", "Z")
    return known
