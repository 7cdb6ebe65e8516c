"""Barnabas: a Kafka that installs with pip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.version import __version__ as __version__

if TYPE_CHECKING:
    from typing import Unpack

    from barnabas.tables import Table, TableOptions


def table(topic: str, **options: Unpack[TableOptions]) -> Table:
    """Open a topic of a cluster (`bootstrap`), a data folder (`data`) or an object store (`remote`) as a table.

    `schema` is DDL (`"user STRING, amount DOUBLE"`), a pyarrow schema or, with `format="avro"`, an Avro schema. Without
    it the schema comes from `registry`, or is inferred from JSON and reported through `notify` (standard error).
    `config` holds TLS and SASL settings by Kafka's names for brokers, and options of the object store.
    """
    try:
        from barnabas.tables import open_table

        return open_table(topic, **options)
    except ModuleNotFoundError as error:
        from barnabas.common.installation import extra_command

        text = f"tables need {error.name}: {extra_command('table')}"
        raise ModuleNotFoundError(text, name=error.name) from None
