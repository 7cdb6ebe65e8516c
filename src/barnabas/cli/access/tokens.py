"""`barnabas tokens`: delegation tokens, which authenticate a client as their owner."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, with_client
from barnabas.cli.output import say, show_done, show_json, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.security.authn import DelegationToken

app = typer.Typer(
    help="Manage delegation tokens: temporary credentials of a user. Log in with --command-config.",
    no_args_is_help=True,
)

MAX = -1
AT_ONCE = -1

Hmac = Annotated[
    str,
    typer.Argument(
        metavar="HMAC", help="The token's HMAC, as printed by `create`; - reads it from standard input."
    ),
]


@app.command()
def create(
    owner: Annotated[
        str | None, typer.Option(metavar="PRINCIPAL", help="The token's owner, for example User:bob [you].")
    ] = None,
    renewers: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="PRINCIPAL", help="A principal that may renew the token; may be repeated."
        ),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Maximum lifetime, for example 12h. Renewing does not extend it."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a token and print its password, once. Clients log in with id and password over SCRAM and tokenauth=true.

    Example:

      barnabas tokens create --lifetime 12h --renewer User:scheduler --command-config alice.properties
    """

    async def work(client: Client) -> tuple[DelegationToken, str]:
        from barnabas.client.access import create_token

        wanted = [_principal(each) for each in renewers or ()]
        whose = None if owner is None else _principal(owner)
        return await create_token(client, whose, wanted, _milliseconds(lifetime, MAX))

    token, password = with_client(bootstrap, work)
    if output is OutputFormat.JSON:
        show_json({**_row(token), "hmac": password})
        return
    say(f"Token {token.token_id} of {token.owner} expires at {_time(token.expires_ms)}.")
    say("The password is shown only once:")
    print(password)


@app.command("list")
def list_tokens(
    owners: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="PRINCIPAL", help="Only tokens of this owner; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the tokens that you are allowed to describe, without their passwords.

    Example:

      barnabas tokens list --command-config alice.properties
    """

    async def work(client: Client) -> list[DelegationToken]:
        from barnabas.client.access import describe_tokens

        return await describe_tokens(
            client, None if owners is None else [_principal(each) for each in owners]
        )

    rows = [_row(token) for token in with_client(bootstrap, work)]
    show_rows(
        output,
        rows,
        ("id", "owner", "renewers", "expires", "ends"),
        empty="No visible tokens.",
    )


@app.command()
def renew(
    hmac: Hmac,
    period: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="New lifetime, for example 2h [the brokers' default]."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Renew a token, up to its maximum lifetime.

    Example:

      barnabas tokens renew - --for 2h --command-config alice.properties < token.password
    """

    async def work(client: Client) -> int:
        from barnabas.client.access import renew_token

        return await renew_token(client, _secret(hmac), _milliseconds(period, MAX))

    expires = with_client(bootstrap, work)
    show_done(output, f"The token expires at {_time(expires)}.", {"expires": _time(expires)})


@app.command()
def expire(
    hmac: Hmac,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Expire after this time, for example 10m [now].")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Expire a token. Open connections that use it stay open until they reauthenticate.

    Example:

      barnabas tokens expire - --command-config alice.properties < token.password
    """

    async def work(client: Client) -> int:
        from barnabas.client.access import expire_token

        return await expire_token(client, _secret(hmac), _milliseconds(after, AT_ONCE))

    expires = with_client(bootstrap, work)
    show_done(output, f"The token expires at {_time(expires)}.", {"expires": _time(expires)})


def _secret(text: str) -> str:
    import sys

    return sys.stdin.readline().strip() if text == "-" else text


def _principal(text: str) -> str:
    from barnabas.cli.access.acls import usage
    from barnabas.client.access import check_principal

    with usage():
        return check_principal(text)


def _milliseconds(text: str | None, unset: int) -> int:
    from barnabas.common.durations import seconds_of

    if text is None:
        return unset
    try:
        return round(seconds_of(text) * 1000)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _row(token: DelegationToken) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": _time(token.issued_ms),
        "expires": _time(token.expires_ms),
        "ends": _time(token.max_ms),
    }


def _time(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    )
