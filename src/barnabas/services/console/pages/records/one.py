"""One record, at a URL that can be shared."""

from __future__ import annotations

from typing import Annotated

import msgspec

from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import RefusedError, ResourceNotFoundError
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.asking import masks_of, readable_subjects, searcher
from barnabas.services.console.routes import DownloadResponse, Routes
from barnabas.services.console.scanning.model import WHOLE_BYTES, Decode, Hit, Search

routes = Routes()

MAX_READERS = 50

Partition = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 2)]


class RecordQuery(msgspec.Struct):
    topic: str
    partition: Partition
    offset: Offset
    decode: Decode = Decode.AUTO


class RecordReader(msgspec.Struct):
    group: str
    has_read: bool
    """True if the group has committed an offset after the record."""


class RecordPage(msgspec.Struct):
    topic: str
    record: Hit
    may_write: bool
    masked: bool
    readers: list[RecordReader]
    """Groups with a committed offset in the partition, as of the last sample."""


@routes.page(
    "/topics/{topic}/records/{partition}/{offset}", needs=topic(Operation.READ), template="records/one.html"
)
async def show_record(context: RequestScope, query: RecordQuery) -> RecordPage:
    """One record with its headers, its value as JSON, text or decoded by its schema, and its bytes."""
    search = await search_for_one(context, query)
    found = await context.cluster.scanner.record(context.client, search)
    if found is None:
        raise ResourceNotFoundError(
            f"{query.topic}-{query.partition} has no record at offset {query.offset}: it was deleted, compacted or "
            "aborted, or is yet to come"
        )
    may_write = not context.settings.read_only and await context.may(
        Operation.WRITE, ResourceType.TOPIC, query.topic
    )
    return RecordPage(query.topic, found, may_write, bool(search.masks), await _readers(context, query))


async def _readers(context: RequestScope, query: RecordQuery) -> list[RecordReader]:
    """Groups that the user may describe; those that have read the record first."""
    committed = {
        group.name: topic.committed[topic.indexes.index(query.partition)]
        for group in context.cluster.sampler.snapshot.groups.values()
        for topic in group.topics
        if topic.topic == query.topic and query.partition in topic.indexes
    }
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, committed)
    found = [RecordReader(name, offset > query.offset) for name, offset in committed.items() if name in seen]
    return sorted(found, key=lambda reader: (not reader.has_read, reader.group))[:MAX_READERS]


@routes.download("/topics/{topic}/records/{partition}/{offset}/value", needs=topic(Operation.READ))
async def download_value(context: RequestScope, query: RecordQuery) -> DownloadResponse:
    """Complete value of a record, as bytes. Refused if any part of the topic is masked for the user."""
    search = await search_for_one(context, query)
    refuse_masked(search)
    chunks = context.cluster.scanner.value(context.client, search)
    return DownloadResponse(
        f"{query.topic}-{query.partition}-{query.offset}", "application/octet-stream", chunks
    )


async def search_for_one(context: RequestScope, query: RecordQuery) -> Search:
    return Search(
        topic=query.topic,
        partitions=(query.partition,),
        first_offset=query.offset,
        until_offset=query.offset + 1,
        limit=1,
        newest_first=False,
        decode=query.decode,
        masks=await masks_of(context, query.topic),
        subjects=await readable_subjects(context),
        shown_bytes=WHOLE_BYTES,
        with_hex=True,
        user=searcher(context),
    )


def refuse_masked(search: Search) -> None:
    if search.masks:
        raise RefusedError(
            f"Parts of {search.topic} are masked for you, so its bytes cannot be copied. Ask for the right to unmask"
        )
