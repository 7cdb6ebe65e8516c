"""`barnabas sql`: topics as tables of DuckDB."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    OPTION,
    Bootstrap,
    Settings,
    command_config,
    parse_settings,
)
from barnabas.cli.output import count, say, show_table
from barnabas.cli.records.schemas import RegistryUrl, discovered_account, registry_account

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.schemas import RegistryAccount
    from barnabas.tables import OpenSource, QueryResult, Table


class RowFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def sql(
    query: Annotated[
        str, typer.Argument(help="The query; each topic is a table: 'select * from orders limit 10'.")
    ],
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Read this data folder, without a broker.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option(metavar="URL", help="Read this object store (s3://...), without a broker.")
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC=DDL", help="Such as 'orders=user STRING, amount DOUBLE'; may be repeated."
        ),
    ] = None,
    registry: RegistryUrl = None,
    output: Annotated[
        RowFormat,
        typer.Option("--output", "-o", help="Output format: a table, JSON lines, CSV or Parquet."),
    ] = RowFormat.TABLE,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Run the query and show its plan and the ranges read, instead of the result."
        ),
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit such as 2GB; beyond it, temporary files are used."),
    ] = None,
    settings: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Query topics in SQL.

    Fields of JSON or Avro values are columns; _key, _partition, _offset, _timestamp and _headers are the record's, and
    _error has the reason if a value could not be parsed. Only committed records up to the current end are read. --set
    is for options of an object store. Needs READ and DESCRIBE on the topics.

    Examples:

      barnabas sql "select country, sum(amount) from orders group by 1"

      barnabas sql "select * from orders where _timestamp > now() - interval 1 hour" -o csv

      barnabas sql --data ./data "select count(*) from orders"
    """
    from barnabas.tables import query as ask

    location = _location(bootstrap, data, remote, parse_settings(settings))
    schemas = _schemas(schema)
    account = _account(registry, bootstrap, is_offline=data is not None or remote is not None)
    answer = ask(
        query, lambda topic: _table(topic, location, schemas, account), memory=memory, explain=explain
    )
    if explain:
        _explain(answer)
    else:
        _write(answer.rows, output)
    if answer.bad_values:
        say(
            f"{count(answer.bad_values, 'value')} did not fit the schema: their fields are null, with the reason in "
            "_error."
        )


def _location(bootstrap: str, data: str | None, remote: str | None, value: dict[str, str]) -> OpenSource:
    from barnabas.client.security import read_properties
    from barnabas.tables import source_of

    if data is not None or remote is not None:
        return source_of(None, data, remote, value)
    file = command_config()
    return source_of(
        bootstrap, None, None, {} if file is None else read_properties(OPTION, file), trusted=True
    )


def _account(registry: str | None, bootstrap: str, *, is_offline: bool) -> RegistryAccount | None:
    account = registry_account(registry)
    if is_offline or (account is not None and account.is_located):
        return account if account is not None and account.is_located else None
    from barnabas.client.schemas import RegistryAccount

    return discovered_account(account or RegistryAccount(), bootstrap)


def _schemas(pairs: list[str] | None) -> dict[str, str]:
    found = {}
    for pair in pairs or ():
        topic, equals, ddl = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not TOPIC=DDL", param_hint="--schema")
        found[topic.strip()] = ddl
    return found


def _table(
    topic: str, location: OpenSource, schemas: dict[str, str], registry: RegistryAccount | None
) -> Table:
    from barnabas.tables import ReadSchema, Table, find_shape

    return Table(
        topic, location, find_shape(topic, location, ReadSchema(schemas.get(topic), registry=registry), say)
    )


def _explain(answer: QueryResult) -> None:
    from barnabas.tables import describe

    print(answer.plan)
    for topic, reads in answer.reads.items():
        for read in reads:
            print(describe(topic, read))


def _write(rows: pa.Table, output: RowFormat) -> None:
    out = sys.stdout.buffer
    if output is RowFormat.PARQUET:
        import pyarrow.parquet

        pyarrow.parquet.write_table(rows, out)
    elif output is RowFormat.CSV:
        import pyarrow.csv

        pyarrow.csv.write_csv(_plain(rows), out)
    elif output is RowFormat.JSON:
        out.writelines(_json_lines(rows))
    else:
        show_table([_shown(row) for row in rows.to_pylist()], rows.column_names, rows.column_names)
    out.flush()


def _plain(rows: pa.Table) -> pa.Table:
    """CSV has no lists and structs: they are written as JSON, and bytes as text."""
    import pyarrow as pa

    columns = []
    for column in rows.columns:
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            texts = [None if value is None else _cell(value) for value in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        columns.append(column)
    return pa.table(columns, names=rows.column_names)


def _cell(value: object) -> str:
    import msgspec

    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return msgspec.json.Encoder(decimal_format="number").encode(_text(value)).decode()


def _json_lines(rows: pa.Table) -> list[bytes]:
    import msgspec

    encode = msgspec.json.Encoder(decimal_format="number").encode  # DuckDB's sums of integers are decimals
    return [encode(_text(row)) + b"\n" for batch in rows.to_batches() for row in batch.to_pylist()]


def _text(value: object) -> object:
    """Convert bytes to text, nested ones too: most keys are text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(name): _text(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_text(inner) for inner in value]
    return value


def _shown(row: dict[str, object]) -> dict[str, object]:
    return {
        name: _cell(value) if isinstance(value, (bytes, dict, list)) else value for name, value in row.items()
    }
