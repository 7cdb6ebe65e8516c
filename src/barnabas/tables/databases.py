"""A DuckDB connection that sees topics and nothing else: no files, no network, no variables of the caller."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barnabas.common.installation import extra_command
from barnabas.tables.dataset import TopicDataset
from barnabas.tables.errors import TableError


@contextmanager
def database(datasets: Mapping[str, TopicDataset], memory: str | None = None) -> Iterator[Any]:
    """Open a connection. Data beyond `memory` spills to a temporary folder. Closing it ends all scans."""
    duckdb = import_duckdb()
    with tempfile.TemporaryDirectory(prefix="barnabas-sql-") as folder:
        connection = duckdb.connect(":memory:")
        try:
            connection.execute("SET python_enable_replacements = false")
            connection.execute("SET temp_directory = ?", [folder])
            if memory is not None:
                connection.execute("SET memory_limit = ?", [memory])
            for name, dataset in datasets.items():
                connection.register(name, dataset)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection
        except duckdb.Error as error:
            raise TableError(str(error)) from error
        finally:
            connection.close()
            for dataset in datasets.values():
                dataset.close()


def import_duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise TableError(f"SQL queries need DuckDB: {extra_command('table')}") from error
    return duckdb
