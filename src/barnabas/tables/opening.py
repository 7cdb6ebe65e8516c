"""`barnabas.table`: open a topic by name and location. Heavy imports happen on the first call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from barnabas.client.schemas import RegistryAccount
    from barnabas.tables.sources import OpenSource
    from barnabas.tables.table import Table

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class TableOptions(TypedDict, total=False):
    """Options of `barnabas.table`, which documents them."""

    bootstrap: str | None
    data: str | None
    remote: str | None
    schema: Any
    format: str | None
    registry: str | None
    delimiter: str
    config: Mapping[str, str] | None
    notify: Callable[[str], None] | None


def open_table(
    topic: str,
    *,
    bootstrap: str | None = None,
    data: str | None = None,
    remote: str | None = None,
    schema: Any = None,
    format: str | None = None,  # noqa: A002 - what Spark and pandas call it
    registry: str | None = None,
    delimiter: str = ",",
    config: Mapping[str, str] | None = None,
    notify: Callable[[str], None] | None = None,
) -> Table:
    """`barnabas.table`, without the message about a missing package."""
    from barnabas.client.schemas import is_registry_setting, parse_registry
    from barnabas.tables.schemas import ReadSchema, find_shape
    from barnabas.tables.table import Table

    settings = config or {}
    account = parse_registry(settings, registry)
    others = {name: value for name, value in settings.items() if not is_registry_setting(name)}
    location = source_of(bootstrap, data, remote, others)
    if data is None and remote is None and schema is None and format in (None, "json", "avro"):
        account = _discovered(bootstrap or DEFAULT_BOOTSTRAP, others, account)
    read_schema = ReadSchema(schema, format, account, delimiter)
    return Table(topic, location, find_shape(topic, location, read_schema, notify or _say))


def _discovered(
    bootstrap: str, config: Mapping[str, str], account: RegistryAccount | None
) -> RegistryAccount | None:
    """The account at the registry that the cluster runs, unless one was named."""
    if account is not None and account.is_located:
        return account
    from barnabas.client import Client
    from barnabas.client.schemas import NO_ACCOUNT, discover_registry
    from barnabas.client.security import parse_security
    from barnabas.tables.scan import run

    async def ask() -> RegistryAccount | None:
        async with Client(bootstrap, client_id="barnabas-table", security=parse_security(config)) as client:
            return await discover_registry(client, account or NO_ACCOUNT)

    return run(ask)


def source_of(
    bootstrap: str | None,
    data: str | None,
    remote: str | None,
    config: Mapping[str, str],
    *,
    trusted: bool = False,
) -> OpenSource:
    """Return a function that opens the location; default: a broker on this host. `trusted` allows `${env:...}`."""
    from barnabas.tables.errors import TableError

    if sum(option is not None for option in (bootstrap, data, remote)) > 1:
        raise TableError("pass exactly one of bootstrap, data and remote")
    if data is not None:
        from barnabas.tables.folder import open_folder

        return open_folder(data)
    if remote is not None:
        from barnabas.tables.bucket import open_bucket

        return open_bucket(remote, config)
    from barnabas.client.security import parse_security
    from barnabas.tables.brokers import open_brokers

    return open_brokers(bootstrap or DEFAULT_BOOTSTRAP, parse_security(config, references=trusted))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
