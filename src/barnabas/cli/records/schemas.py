"""`--schema` of consume and produce: encodes and decodes values with the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import OPTION, OutputFormat, command_config, command_security
from barnabas.cli.output import say

if TYPE_CHECKING:
    from barnabas.client import ConsumedRecord
    from barnabas.client.schemas import Encoder, RegistryAccount
    from barnabas.client.schemas.client import SchemaClient

DEFAULT_REGISTRY = "http://127.0.0.1:8081"
VARIABLE = "BARNABAS_REGISTRY"

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar=VARIABLE,
        help="The schema registry; its login and CA are schema.registry.* settings in --command-config.",
    ),
]

Write = Callable[["ConsumedRecord"], bytes]


def decoding(write: Write, client: SchemaClient, output: OutputFormat | None) -> Write:
    """Wrap a writer so that values (and keys with a schema) are decoded."""
    from barnabas.client.schemas import SchemaDecoder
    from barnabas.client.schemas.client import NotFramedError

    decoder = SchemaDecoder(client)
    warned: set[str] = set()

    def value_of(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return decoder(data)
        except NotFramedError as error:
            if str(error) not in warned:
                warned.add(str(error))
                say(f"Shown as it is: {error}.")
            return data

    def written(record: ConsumedRecord) -> bytes:
        key, value = _optional(decoder, record.key), value_of(record.value)
        if output is OutputFormat.JSON:
            return _json_line(write, record, key, value)
        return write(record._replace(key=_text(key), value=_text(value)))

    return written


def encoder_for(topic: str, url: str | None, bootstrap: str) -> Encoder:
    """Encoder for values of a topic with the latest schema of TOPIC-value."""
    from barnabas.client.schemas import Encoder

    with registry_client(url, bootstrap) as client:
        return Encoder(client, f"{topic}-value")


def encoded(encoder: Encoder, text: bytes | None) -> bytes | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"a value is not JSON: {error}") from None
    return encoder(value)


def registry_client(url: str | None, bootstrap: str) -> SchemaClient:
    """Client of the given registry, else the cluster's, else the default one on this machine."""
    from dataclasses import replace

    from barnabas.client.schemas import RegistryAccount

    account = registry_account(url) or RegistryAccount()
    found = discovered_account(account, bootstrap) or replace(account, url=DEFAULT_REGISTRY)
    return found.client()


def discovered_account(account: RegistryAccount, bootstrap: str) -> RegistryAccount | None:
    """The account with the registry address advertised by the cluster if it has none; None without a registry."""
    from barnabas.client.schemas import discover

    return account if account.is_located else discover(bootstrap, command_security(), account)


def registry_account(url: str | None) -> RegistryAccount | None:
    """`--registry` with the login of `--command-config`; None if neither sets a registry."""
    from barnabas.client.schemas import REGISTRY_URL, parse_registry
    from barnabas.client.security import read_properties
    from barnabas.security.authn import SecuritySettingError

    file = command_config()
    settings = {} if file is None else read_properties(OPTION, file)
    try:
        return parse_registry(settings, url, references=True)
    except SecuritySettingError as error:
        if url is None or error.setting != REGISTRY_URL:
            raise
        raise typer.BadParameter(error.problem, param_hint="--registry") from None


def _optional(decoder: Callable[[bytes], Any], data: bytes | None) -> Any:
    """Decode a key, which is often plain text even if values have a schema."""
    if not data or data[0]:
        return data
    from barnabas.client import ClientError

    try:
        return decoder(data)
    except (ClientError, ValueError):
        return data


def _text(value: Any) -> bytes | None:
    from barnabas.client.schemas import plain

    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False, default=plain).encode()


def _json_line(write: Write, record: ConsumedRecord, key: Any, value: Any) -> bytes:
    from barnabas.client.schemas import plain

    document = json.loads(write(record._replace(key=_text(key), value=_text(value))))
    for name, decoded in (("key", key), ("value", value)):
        if not isinstance(decoded, bytes | None):
            document[name] = decoded
    return json.dumps(document, ensure_ascii=False, default=plain).encode() + b"\n"
