"""`barnabas quotas`: client quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.output import show_done, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.security.quotas.filters import QuotaEntity

app = typer.Typer(help="Manage quotas of users, client ids and IP addresses.", no_args_is_help=True)

DEFAULT = "default"
PRODUCE, FETCH, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

User = Annotated[
    str | None,
    typer.Option(
        "--user", "-u", metavar="NAME", help=f"Quota of this user; `{DEFAULT}` is for users without a quota."
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option("--client-id", metavar="ID", help=f"Quota of this client id; `{DEFAULT}` as for --user."),
]
Address = Annotated[
    str | None,
    typer.Option("--ip", metavar="ADDRESS", help=f"Quota of this address; `{DEFAULT}` as for --user."),
]


@app.command("set")
def set_quotas(
    user: User = None,
    client_id: ClientId = None,
    address: Address = None,
    produce: Annotated[
        str | None, typer.Option(metavar="RATE", help="Produce rate, for example 10MB/s or 512KiB/s.")
    ] = None,
    fetch: Annotated[str | None, typer.Option(metavar="RATE", help="Fetch rate, for example 20MB/s.")] = None,
    requests: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Share of the broker's request time, for example 50%."),
    ] = None,
    mutations: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Partitions created or deleted per second.")
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="New connections per second; with --ip.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Set quotas of a user, a client id, both together, or an address. Quotas that you do not name are unchanged.

    The most specific quota applies: user and client id, then user, then client id, then the defaults.

    Examples:

      barnabas quotas set --user alice --produce 10MB/s --fetch 20MB/s --requests 200%

      barnabas quotas set --user default --client-id default --produce 1MiB/s

      barnabas quotas set --ip 10.0.0.1 --connections 20
    """
    given: dict[str, float | None] = {
        PRODUCE: None if produce is None else parse_rate(produce, "--produce"),
        FETCH: None if fetch is None else parse_rate(fetch, "--fetch"),
        REQUESTS: None if requests is None else parse_percent(requests),
        MUTATIONS: mutations,
        CONNECTIONS: connections,
    }
    wanted = {key: float(value) for key, value in given.items() if value is not None}
    if not wanted:
        raise typer.BadParameter(
            "give at least one of --produce, --fetch, --requests, --mutations, --connections"
        )
    _alter(bootstrap, _entity(user, client_id, address), dict(wanted))
    row = _row(_entity(user, client_id, address), wanted)
    show_done(output, f"{_who(row)} may take {_shown(wanted)}.", row)


@app.command("list")
def list_quotas(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, output: Output = OutputFormat.TABLE) -> None:
    """List all quotas.

    Example:

      barnabas quotas list
    """

    async def work(client: Client) -> list[dict[str, Any]]:
        from barnabas.client.access import describe_quotas

        found = await describe_quotas(client)
        return [
            _row(entity, values) for entity, values in sorted(found.items(), key=lambda pair: repr(pair[0]))
        ]

    rows = with_client(bootstrap, work)
    if output is OutputFormat.TABLE:
        rows = [{**row, "limits": _shown(row["limits"])} for row in rows]
    show_rows(output, rows, ("user", "client_id", "ip", "limits"), empty="No quotas are set.")


@app.command()
def remove(
    user: User = None,
    client_id: ClientId = None,
    address: Address = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="KEY", help="Only this quota, by Kafka's name; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address.

    Examples:

      barnabas quotas remove --user alice

      barnabas quotas remove --user alice --limit producer_byte_rate
    """
    entity = _entity(user, client_id, address)
    every = [CONNECTIONS] if address is not None else [PRODUCE, FETCH, REQUESTS, MUTATIONS]
    _alter(bootstrap, entity, dict.fromkeys(keys or every))
    row = _row(entity, {})
    show_done(output, f"{_who(row)}: quotas removed.", {**row, "removed": keys or every})


def parse_rate(text: str, option: str) -> float:
    """Parse `10MB/s` as bytes per second. 1 MB is 1,000,000 bytes, 1 MiB is 1,048,576 bytes."""
    import re

    units = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 1024, "MI": 1024**2, "GI": 1024**3}
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?(?:/S)?\s*", text.upper())
    if found is None:
        raise typer.BadParameter(
            f"not a valid rate: {text!r} (examples: 10MB/s, 512KiB/s)", param_hint=option
        )
    return float(round(float(found[1]) * units[found[2] or ""]))


def parse_percent(text: str) -> float:
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise typer.BadParameter(
            f"not a valid percentage: {text!r} (example: 50%)", param_hint="--requests"
        ) from None


def _entity(user: str | None, client_id: str | None, address: str | None) -> QuotaEntity:
    from barnabas.security.quotas.filters import QuotaEntity

    if address is not None and (user is not None or client_id is not None):
        raise typer.BadParameter("--ip cannot be combined with --user or --client-id")
    if user is None and client_id is None and address is None:
        raise typer.BadParameter("give --user, --client-id or --ip")
    return QuotaEntity(*("" if name == DEFAULT else name for name in (user, client_id, address)))


def _alter(bootstrap: str, entity: QuotaEntity, changes: dict[str, float | None]) -> None:
    async def work(client: Client) -> None:
        from barnabas.client.access import alter_quotas

        await alter_quotas(client, entity, changes)

    with_client(bootstrap, work)


def _row(entity: QuotaEntity, values: dict[str, float]) -> dict[str, Any]:
    user, client_id, address = (DEFAULT if name == "" else name for name in entity)
    return {"user": user, "client_id": client_id, "ip": address, "limits": values}


def _who(row: dict[str, Any]) -> str:
    words = (("user", "user"), ("client_id", "client id"), ("ip", "address"))
    return " with ".join(f"{word} {row[key]}" for key, word in words if row[key] is not None).capitalize()


def _shown(values: dict[str, float]) -> str:
    return " ".join(
        f"{key}={value:g}" if value < 1e6 else f"{key}={value:.0f}" for key, value in values.items()
    )
