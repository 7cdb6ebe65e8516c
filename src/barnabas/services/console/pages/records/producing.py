"""Producing records: new ones, edited copies, and replays."""

from __future__ import annotations

import asyncio
import base64
import binascii
from enum import StrEnum
from typing import Any

import msgspec

from barnabas.client import Producer, ProducerSettings
from barnabas.client.producing import Delivered
from barnabas.client.schemas import Encoder, IncompatibleValueError, RegistryAccount
from barnabas.client.schemas.client import RegistryError
from barnabas.records import Header
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.one import (
    Offset,
    Partition,
    RecordQuery,
    refuse_masked,
    search_for_one,
)
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import Routes
from barnabas.services.console.scanning.model import RawRecord

routes = Routes()

_AT_ONCE = ProducerSettings(linger=0.0, delivery_timeout=20.0)


class Encoding(StrEnum):
    """Encoding of a key or value in the form."""

    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"
    SCHEMA = "schema"


class ProduceQuery(msgspec.Struct):
    topic: str
    partition: Partition | None = None
    """With `offset`: record to prefill the form with."""
    offset: Offset | None = None


class ProducePage(msgspec.Struct):
    topic: str
    partitions: int
    encodings: list[str]
    has_registry: bool
    key: str = ""
    key_encoding: Encoding = Encoding.TEXT
    value: str = ""
    encoding: Encoding = Encoding.TEXT
    is_null: bool = False
    headers: str = ""


class ProduceForm(msgspec.Struct):
    topic: str
    key: str = ""
    """Empty: no key."""
    key_encoding: Encoding = Encoding.TEXT
    value: str = ""
    encoding: Encoding = Encoding.TEXT
    is_null: bool = False
    """Write a tombstone."""
    headers: str = ""
    """`name: value`, one per line."""
    partition: Partition | None = None


class ReplayForm(msgspec.Struct):
    topic: str
    partition: Partition
    offset: Offset
    target: str
    """Topic to write to; may be the same topic."""


class Produced(msgspec.Struct):
    message: str
    see: str
    topic: str
    partition: int
    offset: int


@routes.page("/topics/{topic}/produce", needs=topic(Operation.WRITE), template="records/produce.html")
async def show_produce(context: RequestScope, query: ProduceQuery) -> ProducePage:
    """Form for a record. `partition` and `offset` prefill it with an existing one (needs READ)."""
    found = (await context.client.topics([query.topic]))[query.topic]
    has_registry = context.cluster.registry.account.is_located
    encodings = [each.value for each in Encoding if has_registry or each is not Encoding.SCHEMA]
    page = ProducePage(query.topic, len(found.partitions), encodings, has_registry)
    if query.partition is not None and query.offset is not None:
        await context.demand(Operation.READ, ResourceType.TOPIC, query.topic)
        _fill(page, await _record(context, RecordQuery(query.topic, query.partition, query.offset)))
    return page


@routes.action("/topics/{topic}/produce", needs=topic(Operation.WRITE))
async def produce(context: RequestScope, form: ProduceForm) -> Produced:
    """Produce one record. `encoding`: text, json, base64, or schema (JSON by the latest schema of TOPIC-value)."""
    key = _bytes(form.key, form.key_encoding, "key") if form.key else None
    value = None if form.is_null else await _value(context, form)
    delivered = await _send(context, form.topic, value, key, parse_headers(form.headers), form.partition)
    return _produced(form.topic, delivered)


@routes.action(
    "/topics/{topic}/records/{partition}/{offset}/replay",
    needs=topic(Operation.READ) & topic(Operation.WRITE, "target"),
)
async def replay(context: RequestScope, form: ReplayForm) -> Produced:
    """Produce a record again, to any topic: same key, value and headers, current timestamp."""
    raw = await _record(context, RecordQuery(form.topic, form.partition, form.offset))
    headers = [(name.decode("utf-8", "surrogateescape"), value) for name, value in raw.headers]
    delivered = await _send(context, form.target, raw.value, raw.key, headers, None)
    return _produced(form.target, delivered)


async def _record(context: RequestScope, query: RecordQuery) -> RawRecord:
    search = await search_for_one(context, query)
    refuse_masked(search)
    return await context.cluster.scanner.raw(context.client, search)


async def _send(
    context: RequestScope,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: list[Header],
    partition: int | None,
) -> Delivered:
    await context.client.topics([topic])  # fails for a missing topic, so that a typo does not create it
    async with Producer(context.client, _AT_ONCE) as producer:
        return await producer.send(topic, value, key, partition=partition, headers=headers)


def _produced(topic: str, delivered: Delivered) -> Produced:
    partition, offset = delivered.partition.partition, delivered.offset
    message = f"Written to partition {partition} of {topic} at offset {offset}"
    return Produced(message, f"/topics/{quote(topic)}/records/{partition}/{offset}", topic, partition, offset)


async def _value(context: RequestScope, form: ProduceForm) -> bytes:
    if form.encoding is not Encoding.SCHEMA:
        return _bytes(form.value, form.encoding, "value")
    if not context.cluster.registry.account.is_located:
        raise BadInputError("No schema registry is configured for this cluster", "encoding")
    try:
        value = msgspec.json.decode(form.value)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"The value is not valid JSON: {error}", "value") from None
    try:
        account = context.cluster.registry.of(context.client)
        return await asyncio.to_thread(_by_schema, account, f"{form.topic}-value", value)
    except (RegistryError, IncompatibleValueError) as error:
        raise BadInputError(str(error), "value") from None


def _by_schema(account: RegistryAccount, subject: str, value: Any) -> bytes:
    with account.client() as client:
        return Encoder(client, subject)(value)


def _bytes(text: str, encoding: Encoding, field: str) -> bytes:
    if encoding is Encoding.BASE64:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise BadInputError(f"The {field} is not valid base64: {error}", field) from None
    if encoding is Encoding.JSON:
        try:
            msgspec.json.decode(text)
        except msgspec.MsgspecError as error:
            raise BadInputError(f"The {field} is not valid JSON: {error}", field) from None
    # Browsers send line breaks as CRLF.
    return text.replace("\r\n", "\n").encode()


def parse_headers(text: str) -> list[Header]:
    found: list[Header] = []
    for line in text.splitlines():
        if line.strip():
            name, colon, value = line.partition(":")
            if not colon:
                raise BadInputError(f"not a valid header: {line!r} (example: `name: value`)", "headers")
            found.append((name.strip(), value.strip().encode()))
    return found


def _fill(page: ProducePage, raw: RawRecord) -> None:
    page.key, page.key_encoding = _text(raw.key or b"")
    page.value, page.encoding = _text(raw.value or b"")
    page.is_null = raw.value is None
    page.headers = "\n".join(
        f"{name.decode('utf-8', 'replace')}: {(value or b'').decode('utf-8', 'replace')}"
        for name, value in raw.headers
    )


def _text(data: bytes) -> tuple[str, Encoding]:
    """Text, or base64 if a form would alter the text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\r"
    if "\r" in text or "\0" in text:
        return base64.b64encode(data).decode(), Encoding.BASE64
    return text, Encoding.TEXT
